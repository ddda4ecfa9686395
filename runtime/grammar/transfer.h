// SPDX-License-Identifier: Apache-2.0
// Serializes compiled grammars between processes.
#pragma once

#include <string>
#include <string_view>

#include <xgrammar/xgrammar.h>

namespace sinter::grammar {

/// Binary form for read_compiled() of the same program. xgrammar's own JSON form repeats the whole
/// grammar's automaton for each rule.
std::string serialized(const xgrammar::CompiledGrammar& grammar);
/// `tokenizer` must be the one that the grammar was compiled for. Throws Error(kInternal) for
/// invalid bytes.
xgrammar::CompiledGrammar read_compiled(std::string_view bytes,
                                        const xgrammar::TokenizerInfo& tokenizer);

}  // namespace sinter::grammar
