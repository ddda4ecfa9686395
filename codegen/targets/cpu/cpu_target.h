// SPDX-License-Identifier: Apache-2.0
// The CPU target: the runtime interprets fused regions over tiles; nothing is compiled.
#pragma once

#include "codegen/targets/target.h"

namespace sinter::codegen {

const Target& cpu_target();

}  // namespace sinter::codegen
