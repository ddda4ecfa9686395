// What an engine needs of a tokenizer.
#pragma once

#include <sinter/engine.h>

#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

/// Sets token_bytes and token_text. The tokenizer must outlive the engine.
void give_texts(const Tokenizer& tokenizer, EngineOptions& options);

}  // namespace sinter::tools
