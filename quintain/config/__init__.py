"""Typed configs: dataclasses that check themselves, read YAML and can be locked."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "base_config": ("Config", "bind"),
        "oneof": ("OneOfConfig",),
        "params_dict": (
            "ParamsDict",
            "nested_csv_str_to_json_str",
            "override_params_dict",
            "read_yaml_to_params_dict",
            "save_params_dict_to_yaml",
        ),
    },
)
