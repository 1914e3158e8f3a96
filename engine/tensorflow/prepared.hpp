// What the kernels need of a request that Python has prepared once and that is submitted again and again. The Python
// module makes it; the library of ops knows only this class, so that it contains nothing of the engine.
#pragma once

namespace paceline::tensorflow {

class Prepared {
 public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  // Whether it can still be submitted: false once its coordinator was closed.
  virtual bool current() const = 0;
  // Hands the request in for `call`, whose tensor lies at `data`. Once the request is over, calls `succeeded(call)`
  // from any thread. If it fails, or cannot be submitted, Python ends the call. Takes the GIL only for a failure.
  virtual void start(void* data, void* call, void (*succeeded)(void* call)) = 0;
};

}  // namespace paceline::tensorflow
