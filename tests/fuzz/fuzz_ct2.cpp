// SPDX-License-Identifier: Apache-2.0
// CTranslate2's model.bin from bytes: whatever they are, an Error or a graph of Whisper's.
#include <cstdint>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "frontend/decoders/config/config_keys.h"
#include "frontend/decoders/files/ct2.h"
#include "frontend/decoders/speech_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinter;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto model = frontend::parse_ct2(bytes, nullptr, "model.bin");
    for (const std::string& name : model.file->names()) {
      try {
        (void)std::get<ir::Tensor>(model.file->read(name).value).hash();
      } catch (const Error&) {  // of integers
      }
    }
    std::vector<std::string> notes;
    (void)frontend::speech_graph(*frontend::keys_of_json(model.config), model.file, nullptr, false,
                                 true, notes);
  } catch (const Error&) {
  }
  return 0;
}
