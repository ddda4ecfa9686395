// SPDX-License-Identifier: Apache-2.0
// Safetensors from bytes, or an index of them (behind an 'i'): whatever they are, an Error or
// tensors that can be read.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <sinter/error.h>
#include <unistd.h>

#include "frontend/decoders/files/safetensors.h"
#include "frontend/decoders/files/tensor_file.h"

namespace {

/// A folder with the files that seeds of indices name.
const std::filesystem::path& folder() {
  static const auto path = [] {
    const auto own = std::filesystem::temp_directory_path() / ("fuzz" + std::to_string(getpid()));
    std::filesystem::create_directory(own);
    for (const char* name : {"a", "b"}) {
      const std::string header =
          std::string("{\"") + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
      std::string bytes(8, '\0');
      bytes[0] = static_cast<char>(header.size());
      std::ofstream(own / (std::string(name) + ".safetensors"), std::ios::binary)
          << bytes << header << "1234";
    }
    return own;
  }();
  return path;
}

void read_index(std::string_view text) {
  const auto path = folder() / "model.safetensors.index.json";
  std::ofstream(path, std::ios::binary) << text;
  const auto file = sinter::frontend::open_safetensors(path);
  for (const std::string& name : file->names())
    (void)std::get<sinter::ir::Tensor>(file->read(name).value).hash();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit([] { std::filesystem::remove_all(folder()); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with('i')) {
      read_index(text.substr(1));
      return 0;
    }
    for (const auto& [name, tensor] :
         sinter::frontend::parse_safetensors(std::as_bytes(std::span(text)), nullptr, "fuzz"))
      (void)tensor.hash();
  } catch (const sinter::Error&) {
  }
  return 0;
}
