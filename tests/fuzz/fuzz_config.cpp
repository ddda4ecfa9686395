// SPDX-License-Identifier: Apache-2.0
// config.json from bytes: whatever they are, an Error or a configuration of a decoder.
#include <cstdint>
#include <string>

#include <sinter/error.h>

#include "frontend/decoders/read_config.h"

namespace {

class Nothing : public sinter::frontend::TensorFile {
 public:
  std::vector<std::string> names() const override { return {}; }
  bool has(std::string_view) const override { return false; }
  std::vector<std::int64_t> shape(std::string_view) const override { return {}; }
  std::string_view type(std::string_view) const override { return "F32"; }
  sinter::frontend::StoredTensor read(std::string_view) const override { return {}; }
  std::vector<std::filesystem::path> paths() const override { return {}; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinter;
  try {
    const auto keys =
        frontend::keys_of_json(std::string(reinterpret_cast<const char*>(data), size));
    (void)frontend::read_config(frontend::architecture_of(*keys), *keys, Nothing());
  } catch (const Error&) {
  }
  return 0;
}
