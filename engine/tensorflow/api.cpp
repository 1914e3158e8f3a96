#include "tensorflow/api.hpp"

#include <dlfcn.h>

namespace paceline::tensorflow {

namespace {

void* find(const char* function) {
  for (const char* library : {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"}) {
    void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded == nullptr) continue;
    void* found = dlsym(loaded, function);
    dlclose(loaded);  // TensorFlow itself keeps it loaded
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <class Function>
void look_up(Api& api, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(find(name));
  if (function == nullptr && api.missing == nullptr) api.missing = name;
}

Api look_up_all() {
  Api api;
#define PACELINE_TENSORFLOW_LOOK_UP(name, ...) look_up(api, api.name, "TF_" #name);
  PACELINE_TENSORFLOW_API(PACELINE_TENSORFLOW_LOOK_UP)
#undef PACELINE_TENSORFLOW_LOOK_UP
  return api;
}

}  // namespace

const Api& api() {
  static const Api found = look_up_all();
  return found;
}

}  // namespace paceline::tensorflow
