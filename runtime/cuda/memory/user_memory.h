// SPDX-License-Identifier: Apache-2.0
// What users give a session: memory for inputs and outputs, and an allocator.
#pragma once

#include <string>

#include <sinter/session.h>

#include "graphs/device.h"
#include "graphs/memory.h"

namespace sinter::runtime {

/// The allocator of `options`, for memory of its GPU; null if it has none.
graphs::DeviceAllocatorPtr device_allocator(const SessionOptions& options);

/// Throws Error(kUsage) unless `data`, of `what` ("input") `name`, is aligned memory of the
/// context's GPU. `said_device`: the GPU that the user says it is of; less than 0: they do not say.
void check_device_pointer(const graphs::Context& context, const void* data, int said_device,
                          const char* what, const std::string& name);
/// Throws Error(kUsage) for an address that the driver knows as device memory.
void check_host_pointer(const graphs::Context& context, const void* data, const char* what,
                        const std::string& name);

}  // namespace sinter::runtime
