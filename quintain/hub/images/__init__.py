"""Detection of objects and segmentation: boxes, masks, heads and scores."""
