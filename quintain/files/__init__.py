"""Files anywhere (local, TensorFlow's, fsspec's): paths, access, atomic writes."""
