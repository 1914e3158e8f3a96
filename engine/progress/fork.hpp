// A forked child (a data loader worker, say) must not keep this rank's sockets open: its peers would not see it die.
#pragma once

namespace paceline {

class Engine;

void track_for_fork(Engine* engine);
void untrack_for_fork(Engine* engine);

}  // namespace paceline
