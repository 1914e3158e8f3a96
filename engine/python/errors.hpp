// The engine's failures as Python's exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "failure/error.hpp"

namespace paceline {

void bind_errors(nanobind::module_& m);

// Raises what has failed. Before, `failed(error, culprit, alone)` is called unless it is None or an argument was wrong:
// it adds what Python knows. `alone`: whether the group goes on.
[[noreturn]] void raise(const Failure& failure, const nanobind::object& failed, bool alone = false);

}  // namespace paceline
