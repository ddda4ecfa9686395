// Reading of Hugging Face's tokenizer.json.
#pragma once

#include <string_view>

#include "tools/tokenizer/tokenizer_data.h"

namespace sinter::tools {

/// `json`: the contents of the file. Throws Error(kUsage) if it is not such a file,
/// Error(kUnsupported) for kinds of models, normalizers and other parts that are not known, by
/// their names.
TokenizerData read_tokenizer(std::string_view json);

}  // namespace sinter::tools
