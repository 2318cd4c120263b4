"""Pretrained models of KerasHub: fine-tuned by config, with adapters, on texts and images."""
