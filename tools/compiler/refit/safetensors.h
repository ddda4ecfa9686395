// SPDX-License-Identifier: Apache-2.0
// Files of safetensors: a header of JSON, then tensors as they lie in memory.
// https://huggingface.co/docs/safetensors
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "ir/tensor.h"

namespace sinter::tools {

/// The tensors by name; their bytes are borrowed from `bytes`, which `owner` keeps where they are,
/// unless they are not aligned to their elements. `what` is what errors call the file. Throws
/// Error(kUsage) for bytes that are no safetensors: a header that is longer than the file or than
/// 100 MB, no JSON, names a tensor twice or has tensors that overlap, leave gaps, lie outside of
/// the file or are of other sizes than their types say; and for types that Sinter does not have.
std::map<std::string, ir::Tensor> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::shared_ptr<const void>& owner,
                                                    const std::string& what);

/// The same of a file, which is mapped.
std::map<std::string, ir::Tensor> read_safetensors(const std::string& path);

/// True if the file begins with the size of a header that it can hold, and a brace. Of a model in
/// protobuf the first byte alone makes that size larger than any file. Throws Error(kUsage) if it
/// cannot be opened.
bool is_safetensors(const std::string& path);

}  // namespace sinter::tools
