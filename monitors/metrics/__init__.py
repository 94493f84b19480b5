"""Lines and records to metric rows: the only parser of what trainings print.

`row`: what a row is. `parser`: lines → rows, with `families` (formats as data), `tables` and the `grammar` of
a line. `axis`: where rows stand. `names`: what a metric's name says.
"""

from monitors.metrics.parser import PATTERN_TOKEN as PATTERN_TOKEN
from monitors.metrics.parser import Found as Found
from monitors.metrics.parser import MetricPatterns as MetricPatterns
from monitors.metrics.parser import MetricReader as MetricReader
from monitors.metrics.parser import literal_in as literal_in
from monitors.metrics.parser import literal_of as literal_of
from monitors.metrics.parser import parse_line as parse_line
from monitors.metrics.parser import read_lines as read_lines
from monitors.metrics.row import Row as Row
from monitors.metrics.row import row_from_object as row_from_object
