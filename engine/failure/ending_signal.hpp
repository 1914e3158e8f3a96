// Hears of a signal that ends this process before it does, so that the process can leave its report. The process then
// ends by that signal all the same.
#pragma once

#include <chrono>
#include <span>

#include "memory/descriptor.hpp"

namespace paceline {

// Hears those of `signals` whose action is the default one, which must be to end the process; what a program has set
// for a signal, before or later, is left alone. Returns a descriptor from which eight bytes can be read once one has
// come: its number. The process ends by it with `end_by`, or after `most`; further ones do nothing until then, as
// launchers repeat what a scheduler sends. A forked child ends at once. Returns an empty descriptor if this process
// hears them already. Throws std::system_error.
Descriptor hear_ending_signals(std::span<const int> signals, std::chrono::seconds most);

// Hears none any more: their action is the default one again.
void stop_hearing_ending_signals();

// Ends this process as the signal does by default. Returns where that does nothing, as in the first process of a
// container.
void end_by(int signal);

}  // namespace paceline
