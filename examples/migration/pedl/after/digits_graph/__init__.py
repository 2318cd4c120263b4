from .data import download_data, make_data_loaders
from .model_def import DigitsTrial
