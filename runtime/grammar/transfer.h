// SPDX-License-Identifier: Apache-2.0
// Compiled grammars as bytes, from the process that compiled them.
#pragma once

#include <string>
#include <string_view>

#include <xgrammar/xgrammar.h>

namespace sinter::grammar {

/// For read_compiled() of the same program. xgrammar's own form, JSON, has the automaton of the
/// whole grammar once for each rule.
std::string serialized(const xgrammar::CompiledGrammar& grammar);
/// `tokenizer` is as the grammar was compiled for. Throws Error(kInternal) for other bytes.
xgrammar::CompiledGrammar read_compiled(std::string_view bytes,
                                        const xgrammar::TokenizerInfo& tokenizer);

}  // namespace sinter::grammar
