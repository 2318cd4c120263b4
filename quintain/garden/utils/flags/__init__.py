"""Groups of `absl` flags that programs have in common; they load when they are first used."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(__name__, ("core",))
