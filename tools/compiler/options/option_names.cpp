// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/option_names.h"

#include <algorithm>
#include <array>

namespace sinter::tools {
namespace {

constexpr std::array kOptionNames = {
    OptionName{"--activation-scales", "eight_bit.activation_scales"},
    OptionName{"--attention-precision", "attention_precision"},
    OptionName{"--bound", "bounds"},
    OptionName{"--cache-precision", "states.cache_precision"},
    OptionName{"--calibration", "weights.calibration"},
    OptionName{"--constant", "constants"},
    OptionName{"--dim", "dims"},
    OptionName{"--disable-pass", "disabled_passes"},
    OptionName{"--drop-unsupported-outputs", "drop_unsupported_outputs"},
    OptionName{"--emulate", "eight_bit.emulate"},
    OptionName{"--entry", "entries"},
    OptionName{"--fuse", "fuse"},
    OptionName{"--include", "eight_bit.include"},
    OptionName{"--keep", "weights.keep"},
    OptionName{"--max-compile-memory", "max_compile_memory"},
    OptionName{"--max-error", "verify.max_error"},
    OptionName{"--max-layer-error", "weights.max_layer_error"},
    OptionName{"--maxShapes", "max_shapes"},
    OptionName{"--minShapes", "min_shapes"},
    OptionName{"--nms-pad", "pad_selections"},
    OptionName{"--op", "operators"},
    OptionName{"--op-library", "operator_libraries"},
    OptionName{"--optShapes", "tuning.shapes"},
    OptionName{"--packed", "packed"},
    OptionName{"--partial", "partial"},
    OptionName{"--precision", "precision"},
    OptionName{"--sample", "sample"},
    OptionName{"--schedule", "schedule"},
    OptionName{"--serve", "paging"},
    OptionName{"--shapes", "shapes"},
    OptionName{"--state", "states"},
    OptionName{"--smooth", "eight_bit.smoothing"},
    OptionName{"--stop-after", "behind_pass"},
    OptionName{"--strict", "strict"},
    OptionName{"--target", "target"},
    OptionName{"--tune", "tuning.seconds"},
    OptionName{"--tuning-cache", "tuning.file"},
    OptionName{"--tuning-gpu", "tuning.gpu"},
    OptionName{"--verify", "verify"},
    OptionName{"--weight-rounding", "eight_bit.compensate"},
    OptionName{"--weight-scales", "eight_bit.per_channel"},
    OptionName{"--weights", "weights"},
};

bool is_of_flag(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

std::span<const OptionName> option_names() { return kOptionNames; }

std::string with_fields(std::string_view message) {
  std::string result;
  while (!message.empty()) {
    const std::size_t at = message.find("--");
    result += message.substr(0, at);
    if (at == message.npos) break;
    const bool begins = at == 0 || !is_of_flag(message[at - 1]);
    message.remove_prefix(at);
    const auto end = std::ranges::find_if_not(message, is_of_flag);
    const std::string_view flag(message.begin(), end);
    const auto found = std::ranges::find_if(
        kOptionNames, [&](const OptionName& name) { return name.flag == flag; });
    result += begins && found != kOptionNames.end() ? found->field : flag;
    message.remove_prefix(flag.size());
  }
  return result;
}

}  // namespace sinter::tools
