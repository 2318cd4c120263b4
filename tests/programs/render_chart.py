"""Renders a chart with each of some values by Helm itself, whose runtime gets a process of its own.

    render_chart.py CHART VALUES...

Prints JSON: what lint finds, and for each of the values (JSON) the rendered files, or the error.
"""

import json
import sys

import helm_python

directory, *all_values = sys.argv[1:]


def render(values):
    with helm_python.Chart.load(directory) as chart:
        try:
            chart.validate_schema(values)
            return chart.render(values, name="quintain")
        except helm_python.HelmError as error:
            return str(error)


found = helm_python.lint(directory, strict=True)
texts = [each["error"] for each in found["messages"] if each["severity"] > 1] + found["errors"]
print(json.dumps({"lint": texts, "rendered": [render(json.loads(text)) for text in all_values]}))
