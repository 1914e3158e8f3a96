// Raises the engine's failures as Python's exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "failure/error.hpp"

namespace paceline {

void bind_errors(nanobind::module_& m);

// Raises a failure. Before that it calls `failed(error, culprit, alone)`, which adds what Python knows, unless `failed`
// is None or an argument was wrong. `alone` tells whether the group goes on. If a signal has come whose handler raises,
// what that raises comes out instead.
[[noreturn]] void raise(const Failure& failure, const nanobind::object& failed, bool alone = false);

}  // namespace paceline
