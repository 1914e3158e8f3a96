"""Plans: which ranks combine which part of the buffer, for a buffer of any size. No I/O, no clock, no engine.

One planner per file; n ranks, B bytes, p the largest power of two <= n, M machines, T* the bound of `bound`:

| planner            | levels                  | bytes sent in an all-reduce                      | used for        |
| ------------------ | ----------------------- | ------------------------------------------------ | --------------- |
| `direct`           | 1                       | 2 B (n-1)/n per rank                             | one machine     |
| `paceline`         | the tree's              | the busiest link for T*, or little longer        | networks        |
| `flexreduce`       | the tree's              | 2 B (M-1)/M over each of M machines' links       | uneven networks |
| `blueconnect`      | the tree's, or a ring's | as `flexreduce` on regular trees, else as `ring` | comparison      |
| `tree`             | ceil(log2 M), and 1     | B each way over a leaf's link, (d+1) B with d    | small, slow     |
| `leaders`          | M, or M-1               | as `flexreduce`; a leader takes in its machine's | few messages    |
| `exchange`         | 2, the last in one shot | B (M-1) over each of M machines' links           | smallest sizes  |
| `ring`             | n-1                     | 2 B (n-1)/n per rank and link                    | comparison      |
| `halving_doubling` | log2 p, 1 more if n > p | 2 B (p-1)/p per rank; B for an extra one         | small           |
| `rabenseifner`     | log2 p, 2 more if n > p | the same, extra ranks in halves                  | comparison      |
| `double_tree`      | floor(log2 n)           | at most 2 B per rank                             | comparison      |
| `blocks`           | the tree's              | half of an all-reduce                            | all-gather      |
| `broadcast_tree`   | by fan-outs             | B into each machine                              | broadcast       |
| `broadcast_chain`  | M-1 and the machines'   | B over each of M machines' links, once each way  | broadcast       |
| `binomial`, `flat` | ceil(log2 n), 1         | B into each rank                                 | one machine     |

`verify` proves that a plan is right, `cost` predicts what it costs on a topology, and `choose` says which plan serves
which size, and why.
"""

from paceline.plan.choice import Choice
from paceline.plan.choose import choose, pick
from paceline.plan.ir import Plan, Range, Reduce
from paceline.plan.verify import PlanError
from paceline.plan.wire import PlanEntry

__all__ = ["Choice", "Plan", "PlanEntry", "PlanError", "Range", "Reduce", "choose", "pick"]
