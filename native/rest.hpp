// Rest: the entries of a node that ask more than one thing, by bucketed bitmaps.
//
// A short list is simply tried. A long one is marked: each attribute with number comparisons is a column,
// cut into buckets at the quantiles of its thresholds; bucket b keeps a bitmap of the slots that fail for
// every value in b, and the edges (thresholds inside b) that must be compared. An event ORs one bitmap per
// column, walks one bucket's edges per column, and what is still alive has all its comparisons true.
// Slots with other tests as well are tried one by one at the end.
//
// Entries are marked 64 at a time, one word per bucket: a toggle where a slot starts or stops to fail, then
// a running XOR over the buckets. What waits for a full word is tried. Marking happens at a match, so that
// loading many filters marks once; the matrix is rebuilt, with fresh buckets, when it is full or half dead,
// so insert and removal cost O(1) over time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "entries.hpp"

namespace runnel {

class Rest {
   public:
    bool empty() const { return waiting_.empty() && alive_ == 0; }

    void add(Entry* e) {
        e->place = kWaiting | static_cast<std::uint32_t>(waiting_.size());
        waiting_.push_back(e);
    }

    void remove(Entry* e) {
        if (e->place & kWaiting) {
            Entry* last = waiting_.back();
            waiting_[e->place & ~kWaiting] = last;
            last->place = e->place;
            waiting_.pop_back();
            return;
        }
        live_[e->place / kWord] &= ~(1ull << e->place % kWord);
        slots_[e->place] = nullptr;
        --alive_;
    }

    void match(Keys& keys, std::vector<Id>& out) {
        settle();
        for (Entry* e : waiting_)
            if (passes_all(e, keys)) answer(e, keys, out);
        if (alive_ == 0) return;
        const std::size_t words = slots_.size() / kWord;
        dead_.assign(words, 0);
        for (Column& c : columns_) {
            const bool number = keys.kind(c.attribute) == Kind::number;
            const std::uint64_t* row =
                number ? c.row(c.bucket(Cut::before(keys.attribute(c.attribute).number))) : c.asking.data();
            or_into(dead_.data(), row, words);
        }
        for (Column& c : columns_)
            if (keys.kind(c.attribute) == Kind::number) walk_edges(c, keys.attribute(c.attribute).number);
        for (std::size_t w = 0; w < words; ++w) {
            for (std::uint64_t left = live_[w] & ~dead_[w]; left; left &= left - 1) {
                const std::size_t slot = w * kWord + static_cast<std::size_t>(__builtin_ctzll(left));
                if (!(special_[w] >> slot % kWord & 1)) out.push_back(ids_[slot]);
                else if (passes_all(slots_[slot], keys)) answer(slots_[slot], keys, out);
            }
        }
    }

   private:
    static constexpr std::uint32_t kWaiting = 1u << 31;
    static constexpr std::size_t kWord = 64, kMarkFrom = 256, kSample = 16384;

    struct Edge {
        double d;
        std::uint16_t rank;
        std::uint32_t slot;
        bool operator<(const Edge& other) const { return d < other.d || (d == other.d && rank < other.rank); }
    };
    // The thresholds inside one bucket, sorted when first needed: a value then splits them in two.
    struct Edges {
        std::vector<Edge> list;
        bool sorted = true;

        void add(const Edge& e) {
            list.push_back(e);
            sorted = false;
        }
        std::vector<Edge>::const_iterator split(Number v) {
            if (!sorted) std::sort(list.begin(), list.end());
            sorted = true;
            return std::partition_point(list.begin(), list.end(), [&](const Edge& e) { return above(v, e.d, e.rank); });
        }
    };
    struct Column {
        AttributeNo attribute;
        std::vector<Cut> bounds;                 // bucket b is [bounds[b - 1], bounds[b])
        std::vector<std::uint64_t> fails;        // buckets × capacity in words
        std::vector<std::uint64_t> asking;       // slots that compare this attribute at all
        std::vector<Edges> lower, upper;         // per bucket: must be above / below
        std::vector<std::uint64_t> toggles;
        std::size_t stride = 0;

        std::uint64_t* row(std::size_t b) { return fails.data() + b * stride; }
        std::size_t bucket(Cut c) const {
            return static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end(), c) - bounds.begin());
        }
    };

    // Marks what waits, if it fills a word; in fresh buckets where the matrix is full or half dead.
    void settle() {
        const bool half_dead = alive_ < slots_.size() / 2;
        if (!half_dead && (waiting_.size() < kWord || waiting_.size() + alive_ < kMarkFrom)) return;
        if (half_dead || slots_.size() + waiting_.size() > capacity_) return rebuild();
        const std::size_t marked = waiting_.size() / kWord * kWord;
        for (std::size_t i = 0; i < marked; i += kWord) mark(waiting_.data() + i);
        keep_waiting(waiting_, marked);
    }

    void keep_waiting(const std::vector<Entry*>& entries, std::size_t from) {
        const std::vector<Entry*> left(entries.begin() + static_cast<std::ptrdiff_t>(from), entries.end());
        waiting_.clear();
        for (Entry* e : left) add(e);
    }

    static bool compares(const Test& t) { return t.ask == Ask::above || t.ask == Ask::below; }

    static void or_into(std::uint64_t* __restrict to, const std::uint64_t* __restrict from, std::size_t words) {
        for (std::size_t w = 0; w < words; ++w) to[w] |= from[w];
    }

    void walk_edges(Column& c, Number v) {
        const std::size_t b = c.bucket(Cut::before(v));
        for (auto e = c.lower[b].split(v); e != c.lower[b].list.end(); ++e) kill(e->slot);
        const auto end = c.upper[b].split(v);
        for (auto e = c.upper[b].list.cbegin(); e != end; ++e) kill(e->slot);
    }

    void kill(std::uint32_t slot) { dead_[slot / kWord] |= 1ull << slot % kWord; }

    // Marks the 64 entries at `group` into the next word of every bitmap.
    void mark(Entry** group) {
        const std::size_t word = slots_.size() / kWord;
        std::uint64_t special = 0;
        for (std::size_t i = 0; i < kWord; ++i) {
            Entry* e = group[i];
            const std::uint64_t bit = 1ull << i;
            e->place = static_cast<std::uint32_t>(slots_.size());
            slots_.push_back(e);
            ids_.push_back(e->owner->id);
            if (e->owner->several) special |= bit;
            for (Test *t = e->tests(), *end = t + e->test_size; t < end; ++t) {
                if (compares(*t)) mark_test(column(t->attribute), *t, bit, word, e->place);
                else special |= bit;
            }
        }
        live_.push_back(~0ull);
        special_.push_back(special);
        alive_ += kWord;
        for (Column& c : columns_) {
            std::uint64_t failing = 0;
            for (std::size_t b = 0; b < c.toggles.size(); ++b) {
                failing ^= c.toggles[b];
                c.toggles[b] = 0;
                c.row(b)[word] = failing;
            }
        }
    }

    void mark_test(Column& c, const Test& t, std::uint64_t bit, std::size_t word, std::uint32_t slot) {
        const std::size_t b = c.bucket(t.cut);
        c.asking[word] |= bit;
        const Edge edge{t.cut.d, t.cut.rank, slot};
        if (t.ask == Ask::above) {  // fails in every bucket before b
            c.toggles[0] ^= bit;
            c.toggles[b] ^= bit;
            c.lower[b].add(edge);
        } else {  // fails in every bucket after b
            if (b + 1 < c.toggles.size()) c.toggles[b + 1] ^= bit;
            c.upper[b].add(edge);
        }
    }

    Column& column(AttributeNo a) {
        std::uint32_t* at = column_of_.find(a);
        if (!at) {  // first comparison of this attribute since the last rebuild: one bucket, all edges
            at = &column_of_.at(a);
            *at = static_cast<std::uint32_t>(columns_.size());
            columns_.push_back(make_column(a, {}));
        }
        return columns_[*at];
    }

    Column make_column(AttributeNo a, std::vector<Cut> bounds) const {
        Column c;
        c.attribute = a;
        c.bounds = std::move(bounds);
        const std::size_t buckets = c.bounds.size() + 1;
        c.stride = capacity_ / kWord;
        c.fails.assign(buckets * c.stride, 0);
        c.asking.assign(c.stride, 0);
        c.lower.resize(buckets);
        c.upper.resize(buckets);
        c.toggles.assign(buckets, 0);
        return c;
    }

    void rebuild() {
        std::vector<Entry*> entries;
        for (Entry* e : slots_)
            if (e) entries.push_back(e);
        entries.insert(entries.end(), waiting_.begin(), waiting_.end());
        slots_.clear(), ids_.clear(), live_.clear(), special_.clear(), columns_.clear();
        column_of_ = {};
        alive_ = 0;
        const std::size_t marked = entries.size() < kMarkFrom ? 0 : entries.size() / kWord * kWord;
        capacity_ = (marked + marked / 4 + kWord) / kWord * kWord;
        if (marked) choose_buckets(entries);
        for (std::size_t i = 0; i < marked; i += kWord) mark(entries.data() + i);
        keep_waiting(entries, marked);
    }

    // Quantiles need no more than some thousand thresholds of each attribute.
    void choose_buckets(const std::vector<Entry*>& entries) {
        IntMap<std::vector<Cut>> cuts;
        std::vector<AttributeNo> order;
        const std::size_t step = 1 + entries.size() / kSample;
        for (std::size_t i = 0; i < entries.size(); i += step) {
            for (Test *t = entries[i]->tests(), *end = t + entries[i]->test_size; t < end; ++t) {
                if (!compares(*t)) continue;
                if (!cuts.find(t->attribute)) order.push_back(t->attribute);
                cuts.at(t->attribute).push_back(t->cut);
            }
        }
        const std::size_t buckets = std::clamp<std::size_t>(entries.size() / 64, 8, 128);
        for (AttributeNo a : order) {
            std::vector<Cut>& all = *cuts.find(a);
            std::sort(all.begin(), all.end());
            std::vector<Cut> bounds;
            for (std::size_t b = 1; b < buckets; ++b) {
                const Cut c = all[b * all.size() / buckets];
                if (bounds.empty() || bounds.back() < c) bounds.push_back(c);
            }
            column_of_.at(a) = static_cast<std::uint32_t>(columns_.size());
            columns_.push_back(make_column(a, std::move(bounds)));
        }
    }

    std::vector<Entry*> waiting_, slots_;
    std::vector<Id> ids_;
    std::vector<std::uint64_t> live_, special_, dead_;
    std::vector<Column> columns_;
    IntMap<std::uint32_t> column_of_;
    std::size_t alive_ = 0, capacity_ = 0;
};

}  // namespace runnel
