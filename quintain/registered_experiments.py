"""All experiments of the package; importing this module registers them."""

import quintain.hub.hub_experiments  # noqa: F401
import quintain.nlp.experiments  # noqa: F401
import quintain.tabular.tabular  # noqa: F401
import quintain.vision.image_experiments  # noqa: F401
