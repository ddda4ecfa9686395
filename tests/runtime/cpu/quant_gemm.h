// SPDX-License-Identifier: Apache-2.0
// Products with quantized weights as plans: run on the CPU, and compared with their definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "runtime/plan/panels/quant_panels.h"
#include "runtime/plan/plan_data.h"
#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {

enum class Zeros { kNone, kIntegers, kFloats };

struct QuantCase {
  std::int64_t m = 1, n = 5, k = 64, group = 64;
  int bits = 8;
  Zeros zeros = Zeros::kNone;
  DType type = DType::kFloat32, scales = DType::kFloat32;
  bool epilogue = false, transposed = false;
  std::int64_t batch = 1;
  double scale = 0.1;
  fb::Activation activation = fb::Activation::GeluErf;  // of the epilogue
  bool special = false;  // NaN among the elements of a and of the residual
  bool floats = false;   // codes of 4 bits are floats; scales of f8e4m3fn have factors, u8 are e8m0
  bool uneven = false;   // codes of 4 bits stand for integers of a table
  std::optional<DType> offsets = std::nullopt;
  bool panels = false;             // the plan has weights in panels
  std::int64_t block = 0;          // of rows rounded to 8 bits
  DType halves = DType::kFloat16;  // type of weights of 16 bits
};

constexpr double kFloats4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};

constexpr double kUneven4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

/// Weights, the plan that multiplies by them, and what it is to give.
class QuantGemm {
 public:
  explicit QuantGemm(const QuantCase& c) : case_(c), random_(7) {
    groups_ = (c.k + c.group - 1) / c.group;
    pitch_ = c.bits == 4 ? (c.k + 1) / 2 : c.k * (c.bits / 8);
    values_.resize(static_cast<std::size_t>(c.n * pitch_));
    for (auto& byte : values_) byte = static_cast<std::uint8_t>(random_());
    if (c.bits == 16) {
      halves_ = random_bytes(c.halves, c.n * c.k, 8);
      std::memcpy(values_.data(), halves_.data(), halves_.size());
    }
    if (size_of(c.scales) == 1) {
      const unsigned least = c.scales == DType::kUInt8 ? 110 : 1;
      for (std::int64_t i = 0; i < c.n * groups_; ++i)
        scales_.push_back(static_cast<std::byte>(least + random_() % 20));
      for (std::int64_t i = 0; i < c.n; ++i) factors_.push_back(0.1F + static_cast<float>(i));
    } else {
      scales_ = random_bytes(c.scales, c.n * groups_, 2);
      for (std::int64_t i = 0; i < c.n * groups_; ++i)
        set_element(c.scales, scales_, i, element(c.scales, scales_, i) * c.scale);
    }
    for (std::int64_t i = 0; i < c.n * groups_; ++i) {
      integers_.push_back(static_cast<std::int8_t>(c.bits == 8 ? int(random_() % 256) - 128
                                                               : int(random_() % 16) - 8));
      floats_.push_back(static_cast<float>(integers_.back()) + 0.3F);
    }
    if (c.offsets) offsets_ = random_bytes(*c.offsets, c.n * groups_, 6);
    a_ = random_bytes(c.type, c.batch * c.m * c.k, 3);
    bias_ = random_bytes(c.type, c.n, 4);
    residual_ = random_bytes(c.type, c.batch * c.m * c.n, 5);
    if (!c.special) return;
    for (Bytes* bytes : {&a_, &residual_}) add_special(c.type, *bytes, fb::Activation::GeluErf);
  }

  PlanBuilder plan() {
    const QuantCase& c = case_;
    PlanBuilder p;
    const Id one = p.constant(1);
    const auto dense = [&](Id buffer, std::int64_t rows, std::int64_t cols, bool transposed) {
      std::vector<Id> strides;
      if (c.batch > 1) strides.push_back(p.constant(rows * cols));
      return transposed ? p.matrix(buffer, one, p.constant(rows), strides)
                        : p.matrix(buffer, p.constant(cols), one, strides);
    };
    fb::MatmulStepT work;
    work.m = p.constant(c.m);
    work.n = p.constant(c.n);
    work.k = p.constant(c.k);
    if (c.batch > 1) work.batch.push_back(p.constant(c.batch));
    work.a = dense(p.input("a", c.type, {p.constant(c.batch * c.m * c.k)}), c.m, c.k, c.transposed);
    work.b = p.matrix(p.weight(c.bits == 8 ? DType::kInt8 : DType::kUInt8, values_), one,
                      p.constant(c.bits == 8 ? pitch_ : 2 * pitch_));
    if (c.batch > 1) work.b->batch_strides.push_back(p.constant(0));
    work.d =
        dense(p.output("d", c.type, {p.constant(c.batch * c.m * c.n)}), c.m, c.n, c.transposed);
    work.quantization = std::make_unique<fb::QuantizationT>();
    work.quantization->bits = static_cast<std::uint8_t>(c.bits);
    work.quantization->group = static_cast<std::uint64_t>(c.group);
    work.quantization->scales = p.weight_bytes(c.scales, scales_.data(), scales_.size());
    if (c.floats)
      for (const double number : kFloats4)
        work.quantization->numbers.push_back(static_cast<std::int8_t>(2 * number));
    if (c.uneven) {
      work.quantization->numbers.assign(std::begin(kUneven4), std::end(kUneven4));
      work.quantization->unit = 1;
    }
    if (c.offsets)
      work.quantization->offsets =
          static_cast<int>(p.weight_bytes(*c.offsets, offsets_.data(), offsets_.size()));
    if (c.scales == DType::kFloat8E4M3FN)
      work.quantization->factors = static_cast<int>(p.weight(DType::kFloat32, factors_));
    if (c.zeros != Zeros::kNone)
      work.quantization->zero_points =
          static_cast<int>(c.zeros == Zeros::kFloats ? p.weight(DType::kFloat32, floats_)
                                                     : p.weight(DType::kInt8, integers_));
    if (c.panels) put_in_panels(p, work);
    if (c.epilogue) {
      work.alpha = 0.5F;
      work.bias = static_cast<int>(p.weight_bytes(c.type, bias_.data(), bias_.size()));
      work.residual =
          dense(p.input("r", c.type, {p.constant(c.batch * c.m * c.n)}), c.m, c.n, false);
      work.activation = c.activation;
    }
    p.matmul("product", std::move(work));
    return p;
  }

  const Bytes& left_operand() const { return a_; }

  void expect_defined_result() {
    const QuantCase& c = case_;
    const Plan built = plan().build();
    for (const int threads : {1, 2}) {
      SessionOptions options;
      options.threads = threads;
      Session session(built, options);
      session.set_input("a", {c.type, {c.batch * c.m * c.k}, a_.data()});
      if (c.epilogue) session.set_input("r", {c.type, {c.batch * c.m * c.n}, residual_.data()});
      session.run();
      expect_close(c.type, expected(), session.output("d"));
    }
  }

 private:
  /// As codegen does: f16 scales stay, others become float32 with their factors and unit.
  void put_in_panels(PlanBuilder& p, fb::MatmulStepT& work) const {
    const QuantCase& c = case_;
    fb::QuantizationT& own = *work.quantization;
    const plan::QuantPanelShape shape{c.bits, c.n, c.k,
                                      std::min(c.group, std::max<std::int64_t>(c.k, 1))};
    std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.value_bytes()));
    for (std::int64_t panel = 0; panel < shape.panels(); ++panel)
      plan::write_value_panel(
          shape, panel, reinterpret_cast<const std::byte*>(values_.data()),
          reinterpret_cast<std::byte*>(values.data()) + panel * shape.panel_bytes());
    const DType type = c.bits == 16 ? c.halves : DType::kUInt8;
    work.b->buffer =
        p.weight_bytes(type, reinterpret_cast<const std::byte*>(values.data()), values.size());
    work.b->dtype = static_cast<std::uint8_t>(type);
    const auto in_panels = [&](const auto& plain) {
      auto made = plain;
      made.resize(static_cast<std::size_t>(shape.group_count()));
      plan::write_group_panels(shape, plain.data(), made.data());
      return made;
    };
    const auto floats = [&](DType type, const auto& number) {
      if (type == DType::kFloat16) {
        std::vector<std::uint16_t> halves(static_cast<std::size_t>(c.n * groups_));
        Bytes bytes(2 * halves.size());
        for (std::int64_t i = 0; i < c.n * groups_; ++i) set_element(type, bytes, i, number(i));
        std::memcpy(halves.data(), bytes.data(), bytes.size());
        halves = in_panels(halves);
        return p.weight_bytes(type, reinterpret_cast<const std::byte*>(halves.data()),
                              2 * halves.size());
      }
      std::vector<float> all;
      for (std::int64_t i = 0; i < c.n * groups_; ++i) all.push_back(static_cast<float>(number(i)));
      return p.weight(DType::kFloat32, in_panels(all));
    };
    const double unit = own.numbers.empty() ? 1 : static_cast<double>(own.unit);
    const bool is_half = c.scales == DType::kFloat16 && unit == 1;
    own.scales = floats(is_half ? DType::kFloat16 : DType::kFloat32, [&](std::int64_t i) {
      const bool has_factors = c.scales == DType::kFloat8E4M3FN;
      return scale(i) * unit *
             (has_factors ? static_cast<double>(factors_[static_cast<std::size_t>(i / groups_)])
                          : 1.0);
    });
    own.factors = -1;
    own.unit = 1;
    if (c.offsets)
      own.offsets = static_cast<int>(
          floats(*c.offsets, [&](std::int64_t i) { return element(*c.offsets, offsets_, i); }));
    if (c.zeros == Zeros::kIntegers)
      own.zero_points = static_cast<int>(p.weight(DType::kInt8, in_panels(integers_)));
    if (c.zeros == Zeros::kFloats)
      own.zero_points = static_cast<int>(p.weight(DType::kFloat32, in_panels(floats_)));
    own.panels = true;
    if (c.block == 0) return;
    own.activations = 8;
    own.block = static_cast<std::uint8_t>(c.block);
  }

  /// Element `k` of row `row` of a, as the plan multiplies it.
  double left(std::int64_t batch, std::int64_t m, std::int64_t k) const {
    const QuantCase& c = case_;
    const auto at = [&](std::int64_t i) {
      return element(c.type, a_, batch * c.m * c.k + (c.transposed ? i * c.m + m : m * c.k + i));
    };
    if (c.block == 0) return at(k);
    double most = 0;
    for (std::int64_t i = k / c.block * c.block; i < std::min(c.k, (k / c.block + 1) * c.block);
         ++i)
      most = std::max(most, std::abs(at(i)));
    // As the processor: float32, to the nearest.
    const float factor = most > 0 ? 127.0F / static_cast<float>(most) : 0;
    return std::nearbyint(static_cast<float>(at(k)) * factor) * (static_cast<float>(most) / 127.0F);
  }

  double weight(std::int64_t n, std::int64_t k) const {
    const auto at = static_cast<std::size_t>(n * groups_ + k / case_.group);
    double q = 0;
    if (case_.bits == 16) {
      q = element(case_.halves, halves_, n * case_.k + k);
    } else if (case_.bits == 8) {
      q = static_cast<std::int8_t>(values_[static_cast<std::size_t>(n * pitch_ + k)]);
    } else {
      const int both = values_[static_cast<std::size_t>(n * pitch_ + k / 2)];
      const int code = k % 2 == 0 ? both & 15 : both >> 4;
      q = case_.floats ? kFloats4[code] : case_.uneven ? kUneven4[code] : code - 8;
    }
    const double zero = case_.zeros == Zeros::kIntegers ? integers_[at]
                        : case_.zeros == Zeros::kFloats ? static_cast<double>(floats_[at])
                                                        : 0;
    const double factor = case_.scales == DType::kFloat8E4M3FN
                              ? static_cast<double>(factors_[static_cast<std::size_t>(n)])
                              : 1;
    const double offset =
        case_.offsets ? element(*case_.offsets, offsets_, static_cast<std::int64_t>(at)) : 0;
    return (q - zero) * scale(static_cast<std::int64_t>(at)) * factor + offset;
  }
  double scale(std::int64_t at) const {
    const double stored = element(case_.scales, scales_, at);
    return case_.scales == DType::kUInt8 ? std::exp2(stored - 127) : stored;
  }

  Bytes expected() const {
    const QuantCase& c = case_;
    Bytes result(residual_.size());
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t m = 0; m < c.m; ++m) {
        for (std::int64_t n = 0; n < c.n; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < c.k; ++k) sum += left(b, m, k) * weight(n, k);
          if (c.epilogue)
            sum = activate(c.activation, 0.5 * sum + element(c.type, bias_, n) +
                                             element(c.type, residual_, (b * c.m + m) * c.n + n));
          set_element(c.type, result, b * c.m * c.n + (c.transposed ? n * c.m + m : m * c.n + n),
                      sum);
        }
      }
    }
    return result;
  }

  QuantCase case_;
  std::mt19937 random_;
  std::int64_t groups_ = 1, pitch_ = 1;
  std::vector<std::uint8_t> values_;
  Bytes halves_;  // weights of 16 bits
  std::vector<std::int8_t> integers_;
  std::vector<float> floats_, factors_;
  Bytes scales_, offsets_, a_, bias_, residual_;
};

inline void expect_all(const std::vector<QuantCase>& cases) {
  for (const QuantCase& c : cases) {
    SCOPED_TRACE(fmt::format("m {} n {} k {} group {} bits {} zeros {} type {}", c.m, c.n, c.k,
                             c.group, c.bits, static_cast<int>(c.zeros), to_string(c.type)));
    QuantGemm(c).expect_defined_result();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace sinter::testing
