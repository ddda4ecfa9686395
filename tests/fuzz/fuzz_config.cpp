// SPDX-License-Identifier: Apache-2.0
// config.json from bytes: whatever they are, an Error or a configuration of a model.
#include <cstdint>
#include <string>

#include <sinter/error.h>

#include "frontend/decoders/config/encoder_config.h"
#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/known_models.h"

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
    const std::string type = keys->text("model_type").value_or("");
    if (const auto* row = frontend::find_encoder(type))
      (void)frontend::read_encoder_config(*row, *keys);
    else
      (void)frontend::read_config(frontend::architecture_of(*keys), *keys, Nothing());
  } catch (const Error&) {
  }
  return 0;
}
