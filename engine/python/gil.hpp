// Gives the GIL up, or takes it.
//
// When Python ends, it ends each other thread that wants the GIL by `pthread_exit`, whose unwinding C++ does not let
// through a destructor: it ends the process instead. Such a thread stops here, until the process has ended.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace paceline {

template <typename Take>
auto stopping_at_exit(Take&& take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    stopping_at_exit([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

class WithGil {
 public:
  WithGil() : state_(stopping_at_exit([] { return PyGILState_Ensure(); })) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace paceline
