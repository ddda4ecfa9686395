// SPDX-License-Identifier: Apache-2.0
// The user's memory: inputs and outputs, and an allocator.
#pragma once

#include <string>

#include <sinter/session.h>

#include "graphs/device.h"
#include "graphs/memory.h"

namespace sinter::runtime {

/// Adapter for the allocator in `options` and its GPU; null if there is none.
graphs::DeviceAllocatorPtr device_allocator(const SessionOptions& options);

/// Throws Error(kUsage) unless `data` of `what` ("input") `name` is aligned memory of the context's
/// GPU. `said_device`: the GPU that the user names; negative: none.
void check_device_pointer(const graphs::Context& context, const void* data, int said_device,
                          const char* what, const std::string& name);
/// Throws Error(kUsage) if the driver knows the address as device memory.
void check_host_pointer(const graphs::Context& context, const void* data, const char* what,
                        const std::string& name);

}  // namespace sinter::runtime
