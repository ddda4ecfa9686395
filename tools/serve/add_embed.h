// SPDX-License-Identifier: Apache-2.0
// The verb `sinter embed`.
#pragma once

namespace sinter::tools {

struct Cli;

void add_embed(Cli& cli);

}  // namespace sinter::tools
