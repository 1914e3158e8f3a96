"""Plans: who combines what, for a buffer of any size. No I/O, no clock, no engine.

One planner per file; n ranks, B bytes, p the largest power of two <= n:

| planner            | levels                  | bytes sent per rank each way        | used for             |
| ------------------ | ----------------------- | ----------------------------------- | -------------------- |
| `direct`           | 1                       | B (n-1)/n                           | one machine          |
| `ring`             | n-1                     | B (n-1)/n                           | networks, large      |
| `halving_doubling` | log2 p, 1 more if n > p | B (p-1)/p; B for an extra rank      | networks, medium     |
| `binomial`         | ceil(log2 n)            | B; rank 0 backwards B ceil(log2 n)  | broadcast            |
| `flat`             | 1                       | B; rank 0 backwards B (n-1)         | broadcast, small     |

`paceline.plan.verify` proves a plan, `paceline.plan.choose` says which one serves which size, and why.
"""

from paceline.plan.choose import Choice, pick, plans
from paceline.plan.ir import Plan, Range, Reduce
from paceline.plan.verify import PlanError
from paceline.plan.wire import PlanEntry

__all__ = ["Choice", "Plan", "PlanEntry", "PlanError", "Range", "Reduce", "pick", "plans"]
