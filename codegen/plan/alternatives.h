// The ways to do a step.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// `count` parts, one after the other, as the only way.
inline plan::fb::ChoiceStepT one_way(std::string name, std::size_t count) {
  auto alternative = std::make_unique<plan::fb::AlternativeT>();
  alternative->name = std::move(name);
  for (std::size_t part = 0; part < count; ++part)
    alternative->parts.push_back(std::make_unique<plan::fb::PartT>());
  plan::fb::ChoiceStepT choice;
  choice.alternatives.push_back(std::move(alternative));
  return choice;
}

}  // namespace sinter::codegen
