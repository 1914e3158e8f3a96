// Asks the kernel for turns that come soon on a busy CPU.
#pragma once

namespace paceline {

// The calling thread asks for short slices: it then gets its turn sooner when it wakes, and no more time in all
// (Stoica, Abdel-Wahab 1995; Linux 6.12 and later). Returns whether the kernel grants it.
bool ask_for_short_slices();

}  // namespace paceline
