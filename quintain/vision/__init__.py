"""Classification of images: data, backbones, task, serving."""
