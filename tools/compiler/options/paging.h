// SPDX-License-Identifier: Apache-2.0
// Paged decoders of many concurrent sequences.
#pragma once

#include <string>
#include <string_view>

#include <sinter/compiler.h>

#include "fusion/context.h"
#include "tools/compiler/options/entries.h"

namespace sinter::tools {

/// Key of the manifest option that stores it.
inline constexpr std::string_view kPagingKey = "serve";

fusion::PagingOptions to_fusion(const PagingOptions& paging);

/// The entry points of a plan with separate steps for few tokens; empty without.
std::vector<EntryLimits> entries_of(const PagingOptions& paging);

/// The inverse of parse_paging.
std::string to_text(const PagingOptions& options);

}  // namespace sinter::tools
