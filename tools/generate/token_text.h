// SPDX-License-Identifier: Apache-2.0
// What an engine needs of a tokenizer.
#pragma once

#include <map>
#include <string>

#include <sinter/engine.h>

#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

/// Sets token_bytes and token_text. Special tokens are no text, but for `shown` ones, of which the
/// text is their name. The tokenizer must outlive the engine.
void give_texts(const Tokenizer& tokenizer, EngineOptions& options,
                std::map<TokenId, std::string> shown = {});

}  // namespace sinter::tools
