"""Records: plain data that the rooms of the experiment platform share."""
