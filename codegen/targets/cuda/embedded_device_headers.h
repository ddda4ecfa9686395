// SPDX-License-Identifier: Apache-2.0
// Device helpers (codegen/device/*.cuh), embedded in the binary at build time.
#pragma once

#include <string>
#include <vector>

namespace sinter::codegen {

struct DeviceHeader {
  std::string name;  // "reduce.cuh"
  std::string text;
};
const std::vector<DeviceHeader>& embedded_device_headers();

}  // namespace sinter::codegen
