#include "kernel/reduce.hpp"

namespace paceline {

namespace baseline {
extern const Kernels table;
}
#ifdef PACELINE_X86
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> all = {&baseline::table};
#ifdef PACELINE_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) all.push_back(&avx2::table);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    all.push_back(&avx512::table);
#endif
  return all;
}

const Kernels& kernels() {
  static const Kernels& best = *available_kernels().back();
  return best;
}

}  // namespace paceline
