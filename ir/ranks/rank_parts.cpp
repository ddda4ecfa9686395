// SPDX-License-Identifier: Apache-2.0
#include "ir/ranks/rank_parts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::ir {
namespace {

std::size_t product(std::span<const std::int64_t> sizes) {
  std::size_t result = 1;
  for (const std::int64_t size : sizes) result *= static_cast<std::size_t>(size);
  return result;
}

const Recipe* recipe_of(const Tensor& tensor) {
  return tensor.buffer() ? tensor.buffer()->recipe().get() : nullptr;
}

bool is_part_of_ranks(const Call& call) {
  return call.name == kPart.name && call.attrs.get_ints("starts").size() > 1;
}

/// Visits the ranks' parts that a constant is made of, each call once.
template <typename Visit>
void for_each_part(const Recipe* recipe, std::set<const Call*>& seen, const Visit& visit) {
  if (recipe == nullptr || !recipe->call || !seen.insert(recipe->call.get()).second) return;
  if (is_part_of_ranks(*recipe->call)) return visit(*recipe->call);
  for (const Tensor& input : recipe->call->inputs) for_each_part(recipe_of(input), seen, visit);
}

bool recipe_differs(const Recipe* recipe) {
  return recipe != nullptr && recipe->call && recipe->differs_by_rank;
}

/// Makes constants again for one rank, each call once.
class Remaker {
 public:
  explicit Remaker(std::int64_t rank) : rank_(rank) {}

  Tensor of(const Tensor& tensor) {
    const Recipe* recipe = recipe_of(tensor);
    if (!recipe_differs(recipe)) return tensor;
    return result_of(*recipe).reshaped(tensor.shape());
  }
  const Tensor& result_of(const Recipe& recipe) {
    const Call& call = *recipe.call;
    auto [at, is_new] = made_.try_emplace(&call);
    if (is_new) {
      Attrs attrs = call.attrs;
      if (is_part_of_ranks(call)) attrs.set("rank", rank_);
      std::vector<Tensor> inputs;
      for (const Tensor& input : call.inputs) inputs.push_back(of(input).plain());
      std::vector<Tensor> results = call.again(attrs, inputs);
      at = made_.insert_or_assign(&call, std::move(results)).first;
    }
    return at->second.at(recipe.output);
  }

 private:
  std::int64_t rank_;
  std::map<const Call*, std::vector<Tensor>> made_;
};

bool is_same(const Tensor& tensor, const Buffer& bytes) {
  const HeldBytes a = tensor.hold(), b = bytes.hold();
  return std::ranges::equal(a.bytes, b.bytes);
}

}  // namespace

const Derivation kPart = {
    "part",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!has_inputs(inputs, 1)) return false;
      const Ints &shape = inputs[0].shape(), &starts = attrs.get_ints("starts");
      const std::int64_t axis = attrs.get_int("axis"), size = attrs.get_int("size"),
                         rank = attrs.get_int("rank");
      if (axis < 0 || axis >= std::ssize(shape) || rank < 0 || rank >= std::ssize(starts))
        return false;
      const std::int64_t whole = shape[static_cast<std::size_t>(axis)];
      return size >= 0 && size <= whole && std::ranges::all_of(starts, [&](std::int64_t start) {
               return start >= 0 && start <= whole - size;
             });
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      Ints shape = inputs[0].shape();
      shape[static_cast<std::size_t>(attrs.get_int("axis"))] = attrs.get_int("size");
      return std::pair(inputs[0].dtype(), shape);
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Tensor& whole = inputs[0];
      const std::span<const std::int64_t> shape = whole.shape();
      const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
      const std::int64_t first =
          attrs.get_ints("starts")[static_cast<std::size_t>(attrs.get_int("rank"))];
      const std::size_t outer = product(shape.first(axis)),
                        inner = product(shape.subspan(axis + 1)) * size_of(whole.dtype());
      const std::size_t start = static_cast<std::size_t>(first) * inner,
                        size = static_cast<std::size_t>(attrs.get_int("size")) * inner,
                        pitch = static_cast<std::size_t>(shape[axis]) * inner;
      std::vector<std::byte> bytes(outer * size);
      const HeldBytes from = whole.hold();
      for (std::size_t i = 0; i < outer && size > 0; ++i)
        std::memcpy(bytes.data() + i * size, from.bytes.data() + i * pitch + start, size);
      return bytes;
    }};

Tensor rank_part(const Tensor& whole, std::int64_t axis, Ints starts, std::int64_t size,
                 const std::shared_ptr<ReadLog>& log) {
  const Attrs attrs{
      {"axis", axis}, {"starts", std::move(starts)}, {"size", size}, {"rank", std::int64_t{0}}};
  const Tensor source = model_tensor(whole.plain(), "a weight", log, true);
  return derive(kPart, attrs, std::span(&source, 1));
}

Tensor for_rank(const Tensor& tensor, std::int64_t rank) {
  return Remaker(rank).of(tensor).plain();
}

std::int64_t ranks_that_share(const Tensor& tensor) {
  std::int64_t result = 0;
  std::set<const Call*> seen;
  for_each_part(recipe_of(tensor), seen, [&](const Call& part) {
    const Ints& starts = part.attrs.get_ints("starts");
    const auto other =
        std::ranges::find_if(starts, [&](std::int64_t start) { return start != starts[0]; });
    const std::int64_t run = other - starts.begin();
    bool is_even = std::ssize(starts) % run == 0;
    for (std::int64_t r = 0; is_even && r < std::ssize(starts); ++r)
      is_even =
          starts[static_cast<std::size_t>(r)] == starts[static_cast<std::size_t>(r / run * run)];
    result = std::gcd(result, is_even ? run : 1);
  });
  return std::max<std::int64_t>(result, 1);
}

void check_ranks_agree(const ReadLog& log, std::int64_t ranks) {
  const auto refuse = [&](std::int64_t rank, const std::string& reader) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("--tensor-parallel {}: {} has decided by values of weights, and those "
                            "of rank {} would decide otherwise than rank 0's: all ranks run the "
                            "same steps",
                            ranks, reader, rank));
  };
  const std::vector<ReadLog::Read> reads = log.reads();
  const std::vector<ReadLog::Equal> equals = log.equals();
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    Remaker remaker(rank);
    for (const ReadLog::Read& read : reads)
      if (recipe_differs(read.recipe.get()) &&
          !is_same(remaker.result_of(*read.recipe), *read.plain))
        refuse(rank, read.reader);
    for (const auto& [a, b] : equals) {
      if (recipe_differs(a.get()) && recipe_differs(b.get()) &&
          !is_same(remaker.result_of(*a), *remaker.result_of(*b).buffer()))
        refuse(rank, "what stores equal constants once");
    }
  }
}

}  // namespace sinter::ir
