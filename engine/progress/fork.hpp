// A forked child, for example a data loader's worker, must not keep this rank's sockets open: peers would not see the
// rank die. See Origin for what else it must not do.
#pragma once

namespace paceline {

class Engine;

void track_for_fork(Engine* engine);
void untrack_for_fork(Engine* engine);

}  // namespace paceline
