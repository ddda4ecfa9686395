// The passes, one file each, named after the pass. pipeline.cpp gives their order.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Recurrent layers for which the target has no kernel become the loops that they are.
Graph expand_bodies(const Graph& graph, Context& context);
/// Pairs inputs with the outputs that take their place in the next run; throws Error(kUsage) for a
/// pair of context.states that cannot be one.
Graph find_states(const Graph& graph, Context& context);
/// Weights that the model keeps in few bits stay so: products of them become QuantMatMul,
/// embeddings gather integers. Then float weights are quantized where context.weights asks for it.
Graph quantize_weights(const Graph& graph, Context& context);
/// Evaluates nodes whose inputs are all constant, unless that would make the model larger.
Graph fold_constants(const Graph& graph, Context& context);
/// Replaces exporter idioms (patterns/idioms.cpp) by the operators that they spell.
Graph recognise(const Graph& graph, Context& context);
/// Constant scale and shift behind a product or convolution become part of its weights and bias.
Graph fold_scales(const Graph& graph, Context& context);
/// Constant scale and shift of columns in front of decision trees become part of their thresholds.
Graph fold_thresholds(const Graph& graph, Context& context);
/// Rounds operands of products and convolutions to 8 bits where context.eight_bit asks for it;
/// throws Error(kUsage) without the samples that this takes.
Graph quantize_products(const Graph& graph, Context& context);
/// Lowers float32 values to context.precision; prints the policy into context.precision_notes.
Graph lower_precision(const Graph& graph, Context& context);
/// Caches among the states become rows of 8 bits with scales where context.states asks for it;
/// throws Error(kUnsupported) naming one that cannot be.
Graph quantize_caches(const Graph& graph, Context& context);
/// Algebra: fewer nodes that compute the same.
Graph simplify(const Graph& graph, Context& context);
/// Products and convolutions of operands that stand for integers of 8 bits multiply these, where
/// the target does: scales and zero points come behind.
Graph fuse_quantization(const Graph& graph, Context& context);
/// Replaces attention that is spelled out by Attention, where the target has a kernel for it.
Graph recognise_attention(const Graph& graph, Context& context);
/// Attention reads rows of 8 bits and their scales as they are, where the target's does.
Graph fold_row_scales(const Graph& graph, Context& context);
/// Queries, keys, values and weights of attention become floats of 8 bits where
/// context.eight_bit.attention asks for it; throws Error(kUsage) without samples.
Graph quantize_attention(const Graph& graph, Context& context);
/// Makes a decoder of one text one of many sequences whose caches lie in blocks, where
/// context.paging asks for it; throws Error(kUnsupported) naming what does not allow it.
Graph page_caches(const Graph& graph, Context& context);
/// Computes encoders over the tokens that a batch has, without its padding, where context.packed
/// asks for it; throws Error(kUnsupported) naming the node that does not allow it.
Graph pack_sequences(const Graph& graph, Context& context);
/// Computes only those rows of products that a Gather or a Slice behind them takes.
Graph select_rows(const Graph& graph, Context& context);
/// Replaces composites (when fusing), and convolutions and attention where the target has none.
Graph decompose(const Graph& graph, Context& context);
/// Reduces over the dimensions that a reshape joined, instead of over what they were joined to.
Graph reduce_parts(const Graph& graph, Context& context);
/// Chooses the memory order of every value, and brings convolutions into what the target wants.
Graph assign_layouts(const Graph& graph, Context& context);
/// Products of one activation with several constant weights become one product and slices of it.
Graph merge_projections(const Graph& graph, Context& context);
/// Constant weights of products of few rows [k, n] become [n, k] (CUDA, 16-bit).
Graph lay_out_weights(const Graph& graph, Context& context);
/// Attention with its operand views and output views.
Graph fuse_attention(const Graph& graph, Context& context);
/// Products and convolutions with their operand views, epilogues and output views.
Graph fuse_matmul(const Graph& graph, Context& context);
/// Regions grown both ways from reductions.
Graph fuse_reductions(const Graph& graph, Context& context);
/// Regions of the pointwise, view and gather nodes that are left.
Graph fuse_pointwise(const Graph& graph, Context& context);
/// Queries and the rows that a step adds to caches with the attention that reads them, where the
/// target has a kernel for it.
Graph fuse_cache_rows(const Graph& graph, Context& context);
/// Products and convolutions with the kernel that reads their result, on targets that have kernels
/// for both.
Graph fuse_gemm(const Graph& graph, Context& context);
/// Users' kernels with what reads their outputs element by element, where their definition lets
/// that be computed as they store.
Graph fuse_custom(const Graph& graph, Context& context);
/// Reductions of few long rows become two, of parts and of their results (CUDA).
Graph split_reductions(const Graph& graph, Context& context);
/// Many small regions that do not depend on each other become one launch (CUDA).
Graph fuse_horizontal(const Graph& graph, Context& context);
/// Makes every node that is left, but reshapes, a fused node of its own.
Graph wrap_singletons(const Graph& graph, Context& context);

}  // namespace sinter::fusion
