#include "codegen/emit/schedule_neighbours.h"

#include <algorithm>

namespace sinter::codegen {
namespace {

bool implies(const std::vector<plan::fb::Condition>& given, const plan::fb::Condition& wanted) {
  return std::any_of(given.begin(), given.end(), [&](const plan::fb::Condition& c) {
    return c.expression() == wanted.expression() && c.divisor() % wanted.divisor() == 0 &&
           c.max() <= wanted.max();
  });
}

}  // namespace

bool implies_all(const std::vector<plan::fb::Condition>& given,
                 const std::vector<plan::fb::Condition>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const auto& condition) { return implies(given, condition); });
}

}  // namespace sinter::codegen
