"""Makes the measurement of links with which jobs on several machines begin ten times as short.

Ranks of tests share few cores, which are busy as long as it lasts, and all machines are this one. Tests in labs, where
links have speeds, measure as users do.
"""

from paceline.adapt.measure import uplinks

uplinks.ROUND_SECONDS = 0.002
