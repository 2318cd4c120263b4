"""Prediction of a column of a table from the others: data, model, task, serving."""
