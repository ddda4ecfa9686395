#include "runtime/c/c_handles.h"

namespace sinter::c {

std::uintptr_t next_handle() {
  static std::atomic<std::uintptr_t> last{0};
  return ++last;
}

// Never destroyed: what a program has not freed when it ends may still be used by its other
// threads.
Handles<sinter_plan, PlanObject>& plans() {
  static auto& handles = *new Handles<sinter_plan, PlanObject>("plan");
  return handles;
}

Handles<sinter_session, SessionObject>& sessions() {
  static auto& handles = *new Handles<sinter_session, SessionObject>("session");
  return handles;
}

Handles<sinter_device_buffer, DeviceBuffer>& device_buffers() {
  static auto& handles = *new Handles<sinter_device_buffer, DeviceBuffer>("buffer");
  return handles;
}

}  // namespace sinter::c
