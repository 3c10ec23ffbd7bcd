// SQL LIKE in linear time, over UTF-8.
//
// The pattern is cut at every `%`. The first part is anchored at the start, the last at the end, the ones
// between are searched leftmost, one after the other: for LIKE the leftmost match is always as good as any
// later one, so there is nothing to go back to. A part without `_` is found by memmem (two-way search), a
// part with `_` by Shift-And over code points, one machine word (the language allows 64 characters there).
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace runnel {

// The code point at p, and p moved past it. The text is valid UTF-8.
inline char32_t next_point(const char*& p) {
    const auto lead = static_cast<unsigned char>(*p++);
    if (lead < 0x80) return lead;
    int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    char32_t point = lead & (0x3F >> more);
    while (more--) point = point << 6 | (static_cast<unsigned char>(*p++) & 0x3F);
    return point;
}

class Like {
   public:
    explicit Like(std::string_view pattern) {
        parts_.emplace_back();
        for (const char *p = pattern.data(), *end = p + pattern.size(); p < end;) {
            char32_t point = next_point(p);
            if (point == U'%') {
                parts_.emplace_back();
                continue;
            }
            const bool any = point == U'_';
            if (point == U'\\' && p < end) point = next_point(p);
            parts_.back().push(any ? kAny : point);
        }
    }

    bool matches(std::string_view text) const {
        const char *at = text.data(), *end = at + text.size();
        at = parts_.front().match(at, end);
        if (!at) return false;
        if (parts_.size() == 1) return at == end;
        for (std::size_t i = 1; i + 1 < parts_.size(); ++i)
            if (!(at = parts_[i].search(at, end))) return false;
        const char* last = parts_.back().start_from_end(at, end);
        return last && parts_.back().match(last, end) == end;
    }

   private:
    static constexpr char32_t kAny = 0xFFFFFFFF;

    struct Part {
        std::u32string points;
        std::string plain;  // the same as UTF-8, while no `_` is in it
        bool has_any = false;

        void push(char32_t c) {
            points.push_back(c);
            if (c == kAny) has_any = true;
            else append(c);
        }
        void append(char32_t c) {
            if (c < 0x80) { plain += static_cast<char>(c); return; }
            const int more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : 1;
            static constexpr unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
            plain += static_cast<char>(lead[more] | c >> (6 * more));
            for (int shift = 6 * (more - 1); shift >= 0; shift -= 6) plain += static_cast<char>(0x80 | (c >> shift & 0x3F));
        }

        // Where a match that starts at `at` ends, or null.
        const char* match(const char* at, const char* end) const {
            if (!has_any) {
                const bool fits = static_cast<std::size_t>(end - at) >= plain.size();
                return fits && std::memcmp(at, plain.data(), plain.size()) == 0 ? at + plain.size() : nullptr;
            }
            for (char32_t want : points) {
                if (at == end) return nullptr;
                if (next_point(at) != want && want != kAny) return nullptr;
            }
            return at;
        }

        // Where the leftmost match at or after `at` ends, or null.
        const char* search(const char* at, const char* end) const {
            if (!has_any) {
                if (plain.empty()) return at;
                const void* found = memmem(at, end - at, plain.data(), plain.size());
                return found ? static_cast<const char*>(found) + plain.size() : nullptr;
            }
            const std::uint64_t done = 1ull << (points.size() - 1);
            for (std::uint64_t state = 0; at < end;) {
                state = (state << 1 | 1) & mask(next_point(at));
                if (state & done) return at;
            }
            return nullptr;
        }

        // The only place where a match that ends at `end` can start, if it is not before `at`.
        const char* start_from_end(const char* at, const char* end) const {
            if (!has_any) return static_cast<std::size_t>(end - at) >= plain.size() ? end - plain.size() : nullptr;
            const char* p = end;
            for (std::size_t i = 0; i < points.size(); ++i) {
                if (p == at) return nullptr;
                do --p; while ((static_cast<unsigned char>(*p) & 0xC0) == 0x80);
            }
            return p;
        }

        std::uint64_t mask(char32_t c) const {
            std::uint64_t bits = 0;
            for (std::size_t i = 0; i < points.size(); ++i)
                if (points[i] == c || points[i] == kAny) bits |= 1ull << i;
            return bits;
        }
    };
    std::vector<Part> parts_;
};

}  // namespace runnel
