"""All experiments of the package; importing this module registers them."""

import quintain.hub.experiments  # noqa: F401
import quintain.nlp.experiments  # noqa: F401
import quintain.tabular.tabular  # noqa: F401
import quintain.vision.experiments  # noqa: F401
