// The CPU: fused regions are programs that the runtime interprets over tiles; nothing is compiled.
#pragma once

#include "codegen/targets/target.h"

namespace sinter::codegen {

const Target& cpu_target();

}  // namespace sinter::codegen
