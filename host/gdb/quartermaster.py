"""GDB commands that read Quartermaster's books: (gdb) source quartermaster.py

    qm caches [NAME]     what the console's slab_stats prints       qm traces NAME   what slab_trace print does
    qm whatis WHERE      what whatis does, of an address or a name  qm stacks [NAME] what slab_stacks does
    qm free              what free -b does                          qm kmemstat [NAME] what kmemstat -b does
    qm allocinfo [NUMBER] what allocinfo [top NUMBER] does          qm growth        what growth does: what is held since boot
    qm image FILE BASE   looks at raw memory saved by QEMU's `pmemsave BASE SIZE FILE` instead of a running target

NAME and NUMBER may be expressions of GDB: a cache or a pointer to one, a variable. Where structures lie is what the image's
debug information says. They read memory and run nothing on the target, so they work at any stop, after a panic, on a core (QEMU's
`dump-guest-memory`) and on a memory image. They need the image with its debug information. NAME may have * and ?. The
target was stopped anywhere: what a hart was about to change may be half changed; each list says what it saw. A list that
damaged memory has made endless ends where it comes back, or after LONGEST steps, and a line says so. Also:
pretty-printers for caches, arenas and atomics.
"""

import bisect
import fnmatch
import os
import re
import struct
import tempfile

import gdb
import gdb.printing

QUANTUM_CACHE = 4
WATCH, RECORD, HOLD = 128, 4, 8  # of a state word: alloc/include/qm/observer.hpp
TRUNCATED, COLLIDED = 0x80, 1  # of a stack's entry: trace/include/qm/trace/stack_depot.hpp
HART_BITS, STACK_BITS = 5, 22  # of a record's words: trace/include/qm/trace/record_table.hpp
DIRECT = 8  # of a cache's flags: alloc/include/qm/cache.hpp
CALL_SHIFT = 40  # of a site's word: alloc/include/qm/call_sites.hpp
LONGEST = 1 << 20  # steps of a walk, of which an image of sound memory has fewer
MOST_HARTS = 64


def plain(value):
    """What an atomic holds, a number of a number, an address of a pointer."""
    while True:
        kind = value.type.strip_typedefs()
        if kind.code != gdb.TYPE_CODE_STRUCT:
            break
        names = [field.name for field in kind.fields()]
        for name in ("_M_i", "_M_b", "_M_p", "_M_base"):
            if name in names:
                value = value[name]
                break
        else:
            bases = [field for field in kind.fields() if field.is_base_class]
            if not bases:
                break
            value = value.cast(bases[0].type)
    return value


def number(value):
    return int(plain(value))


def static(name, member=None, namespace="qm"):
    """A variable of an unnamed namespace; the one that has @p member, if several have the name."""
    for symbol in gdb.lookup_static_symbols("%s::(anonymous namespace)::%s" % (namespace, name)):
        kind = symbol.type.strip_typedefs()
        if member and (kind.code != gdb.TYPE_CODE_STRUCT or member not in [field.name for field in kind.fields()]):
            continue
        return symbol.value()
    raise gdb.GdbError("the image has no %s::%s: is its debug information there, and is it Quartermaster's?" %
                       (namespace, name))


def variable(name):
    symbol = gdb.lookup_global_symbol(name)
    return symbol.value() if symbol is not None else None


def address_text(address):
    return "0x%0*x" % (2 * gdb.lookup_type("char").pointer().sizeof, address)


def counted_as(count, one, many):
    """A number and what it counts, as the console prints it: 1 object, 2 objects."""
    return "%d %s" % (count, one if count == 1 else many)


def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def bounded(nodes, what):
    """The nodes of a list, up to one that it had before, to LONGEST of them, or to memory that is not there."""
    seen = set()
    try:
        for node in nodes:
            address = int(node) if node.type.code == gdb.TYPE_CODE_PTR else int(node.address)
            if address in seen or len(seen) == LONGEST:
                print("note: %s do not end: memory is damaged" % what)
                return
            seen.add(address)
            (node.dereference() if node.type.code == gdb.TYPE_CODE_PTR else node).fetch_lazy()
            yield node
    except gdb.MemoryError as error:
        print("note: %s end where memory does: %s" % (what, error))


def at(address, type_name):
    """What lies at an address, as a structure of the image."""
    return gdb.Value(address).cast(gdb.lookup_type(type_name).pointer()).dereference()


class Layout:
    """Where the members of a structure lie, for many of them: faster than a gdb.Value each."""

    def __init__(self, type_name):
        self.type = gdb.lookup_type(type_name).strip_typedefs()
        self.sizeof = self.type.sizeof
        self.members = {field.name: (field.bitpos // 8, field.type.sizeof) for field in self.type.fields()
                        if hasattr(field, "bitpos") and not field.is_base_class}

    def number(self, data, start, name):
        offset, size = self.members[name]
        return int.from_bytes(data[start + offset : start + offset + size], "little")


def limited(count, limit, what):
    """A count of the target's, unless it cannot be."""
    if not 0 <= count <= limit:
        raise gdb.GdbError("%d %s: memory is damaged, or the image is another" % (count, what))
    return count


def text_of(value, limit=256):
    """A string of C, of which no more than that is read; `?` where no memory is."""
    try:
        text = b""
        while len(text) < limit and not text.endswith(b"\0"):
            text += memory(int(value) + len(text), 1)
        return text.rstrip(b"\0").decode("ascii", "replace")
    except gdb.error:
        return "?"


def is_glob(pattern):
    return "*" in pattern or "?" in pattern


def matches(pattern, name):
    if is_glob(pattern):
        return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
    return not pattern or pattern == name


# ---- names of functions ----------------------------------------------------------------------------------------------


def uleb128(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


class Names:
    """The function around an address: by the table in the image that the console looks into (its layout is in
    firmware/boot/src/symbols.cpp), and of an image without one as GDB knows it."""

    BLOCK = 16

    def __init__(self):
        self.starts, self.sizes, self.names = [], [], []
        try:
            text = int(gdb.parse_and_eval("(unsigned long)&__text_start"))
            at = int(gdb.parse_and_eval("(unsigned long)&__qm_symbols_start")) + 8
            blocks, records, length, qualifiers, text_bytes, _ = struct.unpack("<6I", memory(at, 24))
        except gdb.error:
            return
        table = memory(at, length)
        scopes = table[qualifiers:].decode().split("\0")
        for i in range(records):
            if i % self.BLOCK == 0:
                start, at = struct.unpack_from("<II", table, 24 + 8 * (i // self.BLOCK))
            distance, at = uleb128(table, at)
            padding, at = uleb128(table, at)
            end = table.index(0, at + 1)
            start += 2 * distance
            if self.starts:
                self.sizes.append(text + start - self.starts[-1] - gap)
            gap = 2 * padding
            self.starts.append(text + start)
            self.names.append(scopes[table[at]] + table[at + 1 : end].decode())
            at = end + 1
        if self.starts:
            self.sizes.append(text + text_bytes - self.starts[-1] - gap)

    def find(self, pc):
        """Name, offset, and size (0: not known); None where no function is."""
        if not self.starts:
            text = gdb.execute("info symbol 0x%x" % pc, to_string=True)
            told = re.match(r"(.*?)(?: \+ (\d+))? in section \.text", text)
            return (told.group(1), int(told.group(2) or 0), 0) if told else None
        place = bisect.bisect_right(self.starts, pc) - 1
        if place < 0 or not self.names[place] or pc >= self.starts[place] + self.sizes[place]:
            return None
        return self.names[place], pc - self.starts[place], self.sizes[place]


    def start(self, name):
        """Where the only function of a name begins; None: there is none, or there are several."""
        found = [start for start, known in zip(self.starts, self.names) if known == name]
        return found[0] if len(found) == 1 else None


def name_text(name, offset, size):
    return "%s+0x%x" % (name, offset) + ("/0x%x" % size if size else "")


# ---- what there is ---------------------------------------------------------------------------------------------------


def entries(kind):
    """Arenas (0) or caches (1), in the order of their creation."""

    def following(entry):
        while int(entry) != 0:
            yield entry
            entry = entry["next_"]

    for entry in bounded(following(static("firsts")[kind]), "caches and arenas"):
        if not entry["hidden_"]:
            yield entry


def arenas():
    kind = gdb.lookup_type("qm::Arena").pointer()
    return [entry.cast(gdb.lookup_type("qm::Traceable").pointer()).cast(kind).dereference() for entry in entries(0)]


def caches():
    kind = gdb.lookup_type("qm::Cache").pointer()
    return [entry.cast(gdb.lookup_type("qm::Traceable").pointer()).cast(kind).dereference() for entry in entries(1)]


def name_of(source):
    return text_of(source["name_"])


def harts():
    return limited(int(static("caches", member="harts_")["harts_"]), MOST_HARTS, "harts")


class CacheView:
    """A cache, and where its objects are."""

    def __init__(self, cache):
        self.cache = cache
        self.slabs = cache["slabs_"]
        self.depot = cache["depot_"]
        kind = gdb.lookup_type("qm::Cell").pointer()
        first = gdb.Value(int(cache.address) + cache.type.sizeof).cast(kind)
        self.cells = [first[hart] for hart in range(harts())]
        extra = int(plain(cache["extra_"]))
        self.extra = gdb.Value(extra).cast(gdb.lookup_type("qm::CacheExtra").pointer()).dereference() if extra else None
        self.word = gdb.lookup_type("char").pointer().sizeof

    def trailer(self):
        """Bytes behind an object, of a call site's tag; a checking build has more, which its debug information does not
        say."""
        fields = self.slabs["tagging_"].type.fields()
        tagging = [field.name for field in fields if not field.is_base_class and hasattr(field, "bitpos")]
        if bool(self.slabs["no_touch_"]) or "tagged" not in tagging or not bool(self.slabs["tagging_"]["tagged"]):
            return 0
        align = 1 << int(self.slabs["alignment_log2_"])
        return (4 + align - 1) & ~(align - 1)

    def object_size(self):
        return int(self.slabs["stride_"]) - self.trailer()

    # -- magazines

    def closed(self):
        return int(gdb.lookup_global_symbol("qm::kClosed").value()[1].address)

    def loaded_rounds(self, cell):
        """Addresses of the slots in use of a cell's loaded magazine."""
        top = number(cell["top"])
        if top == self.closed():
            top = number(cell["saved_top"])
        loaded = number(cell["loaded"])
        if loaded == 0:
            return []
        slots = loaded + gdb.lookup_type("qm::Magazine").sizeof
        count = (top - slots) // self.word
        return [slots + i * self.word for i in range(count)] if 0 <= count <= self.capacity(loaded) else []

    def capacity(self, magazine):
        return int(at(magazine, "qm::Magazine")["capacity"])

    def magazine_slots(self, magazine):
        """Addresses of the slots in use of a magazine that is not loaded."""
        header = at(magazine, "qm::Magazine")
        slots = magazine + header.type.sizeof
        return [slots + i * self.word for i in range(int(header["rounds"]))]

    def rounds(self, cell):
        return len(self.loaded_rounds(cell)) + number(cell["prev_rounds"])

    def pointer(self, address):
        return int.from_bytes(memory(address, self.word), "little")

    def magazine_objects(self, magazine):
        def following(header):
            while int(header) != 0:
                yield header
                header = header["next"]

        first = gdb.Value(magazine).cast(gdb.lookup_type("qm::Magazine").pointer())
        for header in bounded(following(first), "magazines"):
            for slot in self.magazine_slots(int(header)):
                yield self.pointer(slot)

    def slab_bytes(self):
        return int(self.slabs["slab_bytes_"])

    # -- slabs

    def all_slabs(self):
        def following(first):
            slab = first
            while int(slab) != 0:
                yield slab.dereference()
                slab = plain(slab["next"]).cast(first.type)
                if slab == first:
                    return

        for ring in ("usable_", "full_"):
            yield from bounded(following(plain(self.slabs[ring]["first_"])), "slabs of %s" % name_of(self.cache))

    def bytes_of(self, slab):
        """As SlabLayer::bytes_of(): a slab of one object has no more behind it than needed."""
        whole = int(slab["objects"]) != 1 or int(self.slabs["objects_"]) == 1
        return self.slab_bytes() if whole else int(slab.address) + slab.type.sizeof - int(slab["start"])

    def slab_of(self, address):
        for slab in self.all_slabs():
            start = int(slab["start"])
            if bool(self.slabs["no_touch_"]):
                if 0 <= address - start < int(slab["objects"]) * int(self.slabs["stride_"]):
                    return slab
            else:
                end = (address | (self.slab_bytes() - 1)) + 1
                if end - slab.type.sizeof == int(slab.address) and end - address <= self.bytes_of(slab):
                    return slab
        return None

    def bitmap(self, slab):
        """Where the bitmap of a slab's free objects begins, and the bytes of its words."""
        word = gdb.lookup_type("long").sizeof
        words = (int(self.slabs["objects_"]) + 8 * word - 1) // (8 * word)
        return int(slab.address) - words * word, word

    def is_free(self, slab, index):
        word_bytes = gdb.lookup_type("long").sizeof  # the word of the first objects is the last
        bits = 8 * word_bytes
        word = memory(int(slab.address) - (1 + index // bits) * word_bytes, word_bytes)
        return int.from_bytes(word, "little") >> (index % bits) & 1 != 0

    def whereabouts(self, slab, index, address):
        if self.is_free(slab, index):
            return "free in its slab"
        for hart, cell in enumerate(self.cells):
            if address in [self.pointer(slot) for slot in self.loaded_rounds(cell)]:
                return "idle in a magazine of hart %d" % hart
            previous = int(cell["prev"])
            if previous != 0:
                if address in [self.pointer(slot) for slot in self.magazine_slots(previous)]:
                    return "idle in a magazine of hart %d" % hart
        if address in self.magazine_objects(number(self.depot["first_"][0])):
            return "idle in the depot"
        if self.extra is not None and address in self.magazine_objects(int(self.extra["reserve"]["stocked_"])):
            return "idle in the reserve"
        return "in use"

    def allocations(self):
        """So far; None in a build that does not count them."""
        try:
            if int(self.cache["flags_"]) & DIRECT:
                return number(self.slabs["taken_ever_"])
            return sum(number(cell["counts"]["allocs"]) for cell in self.cells)
        except gdb.error:
            return None

    def stats(self):
        slabs, depot = self.slabs, self.depot
        whole = int(slabs["slabs_"]) - int(slabs["short_slabs_"])
        total = whole * int(slabs["objects_"]) + int(slabs["short_slabs_"])
        out = int(slabs["out_"])
        in_magazines = sum(self.rounds(cell) for cell in self.cells)
        in_depot = number(depot["full_rounds_"])
        reserved = number(self.extra["reserve"]["held_"]) if self.extra is not None else 0
        idle = in_magazines + in_depot + reserved
        limit = number(slabs["limit_"])
        return {
            "in_slabs": total - out, "out": out,
            "in_magazines": in_magazines, "in_depot": in_depot, "reserved": reserved,
            "reserve": number(self.extra["reserve"]["promised_"]) if self.extra is not None else 0,
            "in_use": max(out - idle, 0), "limit": 0 if limit == 0xFFFFFFFF else limit,
            "total": total,
            "allocations": self.allocations(),
            "failures": sum(number(cell["counts"]["failures"]) for cell in self.cells),
            "misuses": sum(number(cell["counts"]["misuses"]) for cell in self.cells),
            "misses": sum(number(cell["counts"]["misses"]) for cell in self.cells),
        }


# ---- the books -------------------------------------------------------------------------------------------------------


class Record:
    """A record in its slot: see trace/include/qm/trace/record_table.hpp."""

    def __init__(self, layout, data, start):
        self.cache, self.object, self.time, self.size = (
            layout.number(data, start, name) for name in ("cache", "object", "time", "size"))
        hart_sequence = layout.number(data, start, "hart_sequence")
        stack_context = layout.number(data, start, "stack_context")
        self.hart = hart_sequence & (1 << HART_BITS) - 1
        self.sequence = hart_sequence >> HART_BITS << 32 | layout.number(data, start, "sequence_low")
        self.stack = stack_context & (1 << STACK_BITS) - 1
        self.context = (stack_context & 0x7FFFFFFF) >> STACK_BITS


class Books:
    REASONS = ("records full", "no memory for records", "no memory for handles", "address out of range")

    def __init__(self):
        self.books = variable("qm::trace::books")
        self.ready = self.books is not None and int(self.books["trace_cache_"]) != 0
        self.names = Names()
        self.word = gdb.lookup_type("char").pointer().sizeof
        if self.ready:
            self.opened = number(self.books["open_"]) != 0
            self.stack_layout = Layout("qm::trace::StackEntry")

    def of(self, source):
        """The books of a source; None: it was never traced."""
        at = number(source["books"])
        if at == 0:
            return None
        return gdb.Value(at).cast(gdb.lookup_type("qm::trace::SourceBooks").pointer()).dereference()

    def numbered(self):
        if not self.ready or not self.opened:
            return
        for index in range(1, limited(int(self.books["cache_limit_"]), LONGEST, "caches at most") + 1):
            at = number(self.books["directory_"][index])
            if at == 0:
                return
            yield gdb.Value(at).cast(gdb.lookup_type("qm::trace::SourceBooks").pointer()).dereference()

    def figures(self, one):
        kind = gdb.lookup_type("qm::trace::HartBooks").pointer()
        first = gdb.Value(int(one.address) + one.type.sizeof).cast(kind)
        mask = (1 << 8 * gdb.lookup_type("long").sizeof) - 1
        sums = {"recorded": 0, "left_out": 0, "lost_stacks": 0, "lost_contexts": 0, "dropped": [0] * len(self.REASONS)}
        for hart in range(limited(int(self.books["harts_"]), MOST_HARTS, "harts")):
            now, base = first[hart]["now"], first[hart]["base"]
            for name in ("recorded", "left_out", "lost_stacks", "lost_contexts"):
                sums[name] += (number(now[name]) - number(base[name])) & mask
            for reason in range(len(self.REASONS)):
                sums["dropped"][reason] += (number(now["dropped"][reason]) - number(base["dropped"][reason])) & mask
        return sums

    @staticmethod
    def state(source):
        word = number(source["state_"])
        if word & RECORD:
            return "on"
        if word & HOLD:
            return "stopping"
        return "draining" if word & WATCH else "off"

    @staticmethod
    def from_before_start(one, source):
        """As trace::cache_trace() has it: never more than users hold without a record."""
        if source.type.name == "qm::Cache":
            held = CacheView(source).stats()["in_use"]
        else:
            counts = source["counts_"]
            held = int(counts["allocations_ever"]) - int(counts["frees_ever"]) - int(source["slab_segments_"])
        return min(number(one["from_before_start"]), max(held - number(source["live_records"]), 0))

    def records(self):
        if not self.ready or not self.opened:
            return
        table = self.books["records"]
        layout = Layout("qm::trace::RecordSlot")
        stride = limited(int(self.books["trace_cache_"]["slabs_"]["stride_"]), LONGEST, "bytes of a chunk of records")
        per_chunk = stride // layout.sizeof
        for chunk in range(limited(number(table["chunks_"]), LONGEST, "chunks of records")):
            slots = number(table["directory_"][chunk])
            if slots == 0:
                continue
            data = memory(slots, per_chunk * layout.sizeof)
            for start in range(0, len(data), layout.sizeof):
                if layout.number(data, start, "sequence_low") and layout.number(data, start, "cache"):
                    yield Record(layout, data, start)

    def object_of(self, one, record):
        base, unit = int(one["base"]), int(one["unit"])
        return base + ((record.object - base // unit) & 0xFFFFFFFF) * unit

    def entry(self, handle):
        """handle, id, owner, flags, pcs, next and how many it counts, of a stack; None: there is none."""
        if handle < 2:
            return None
        layout = self.stack_layout
        place = int(self.books["stacks"]["pool_"]) + handle * 8  # a handle counts words of 8 bytes
        data = memory(place, layout.sizeof)
        entry = {name: layout.number(data, 0, name) for name in ("id", "owner", "flags", "next", "counted", "depth")}
        low = int(self.books["ranges_"]["plain"]["low"])
        frames = struct.unpack("<%di" % entry["depth"], memory(place + layout.sizeof, 4 * entry["depth"]))
        wide = (1 << 8 * self.word) - 1
        entry.update(handle=handle, pcs=[(low + frame) & wide for frame in frames])
        return entry

    def stacks(self):
        depot = self.books["stacks"]
        buckets = int(depot["buckets_"])
        if buckets == 0:
            return
        seen = set()
        buckets_here = limited(int(depot["mask_"]) + 1, LONGEST, "buckets of stacks")
        for head in struct.iter_unpack("<I", memory(buckets, 4 * buckets_here)):
            handle = head[0]
            while handle != 0:
                entry = self.entry(handle) if handle not in seen else None
                if entry is None:
                    print("note: the stacks of a bucket do not end: memory is damaged")
                    break
                seen.add(handle)
                yield entry
                handle = entry["next"]

    def context(self, ident):
        if ident == 0:
            return "?"
        slot = self.books["contexts"]["slots_"][ident]
        length = min(int(slot["length"]), slot["text"].type.sizeof)
        return memory(int(slot["text"].address), length).decode("ascii", "replace")

    def print_record(self, one, record):
        where = address_text(self.object_of(one, record))
        print("Obj %s, from hart %d %s:\n----" % (where, record.hart, self.context(record.context)))
        stack = self.entry(record.stack)
        pcs = stack["pcs"] if stack else []
        for at, pc in enumerate(pcs):
            found = self.names.find(pc - 1)
            print("#%02d [<%s>] in %s" % (at + 1, address_text(pc), found[0] if found else "(null)"))
        truncated = stack is None or stack["flags"] & TRUNCATED != 0
        if truncated:
            print("#%02d [<...>] in ... (truncated)" % (len(pcs) + 1))
        print("")
        return truncated

    def record_of(self, source, address):
        one = self.of(source) if self.ready else None
        if one is None:
            return None, None
        for record in self.records():
            if record.cache == int(one["number"]) and self.object_of(one, record) == address:
                return one, record
        return one, None


# ---- commands --------------------------------------------------------------------------------------------------------


def named(sources, pattern):
    pattern = name_in(pattern)
    found = [source for source in sources if matches(pattern, name_of(source))]
    if not sources:
        raise gdb.GdbError("no caches and arenas are there: is there a target, and has it booted?")
    if not found:
        raise gdb.GdbError("No such slab %s" % pattern)
    return found


def print_caches(pattern):
    shown = named(caches(), pattern)
    for cache in shown:
        view = CacheView(cache)
        stats = view.stats()
        depot = view.depot
        magazine_rounds = int(gdb.parse_and_eval("qm::kMagazineRounds")[number(depot["step_"])])
        print("\nKmem_cache: %s\n---------------------" % name_of(cache))
        print("Source: %s" % name_of(view.slabs["source_"].dereference()))
        print("Objsize (incl align): %d" % view.object_size())
        print("Align: %d" % (1 << int(view.slabs["alignment_log2_"])))
        print("Nr unallocated in slab layer: %d" % stats["in_slabs"])
        print("Nr allocated from slab layer: %d" % stats["out"])
        print("Depot magsize: %d" % magazine_rounds)
        print("Nr empty mags: %d" % int(depot["count_"][1]["now"]))
        print("Nr non-empty mags: %d" % int(depot["count_"][0]["now"]))
        print("High water: %d" % int(view.slabs["out_high_"]))
        print("Failures: %d, refused frees %d" % (stats["failures"], stats["misuses"]))
        print("Nr slabs: %d, %d bytes each" % (int(view.slabs["slabs_"]), print_slab_bytes(view)))
        print("Nr in use: %d" % stats["in_use"])
        print("Nr idle in magazines: %d" % stats["in_magazines"])
        print("Nr idle in depot: %d" % stats["in_depot"])
        print("Nr idle in slabs: %d" % stats["in_slabs"])
        print("Magazine misses: %d" % stats["misses"])
        print("Magsize changes: %d" % number(depot["changes_"]))
        print("Limit: %s" % (stats["limit"] or "none"))
        held = ", %d in it" % stats["reserved"] if stats["reserved"] != stats["reserve"] else ""
        print("Reserve: %d%s" % (stats["reserve"], held))
    print("caches %d: complete" % len(shown))


def print_slab_bytes(view):
    """SlabLayer::bytes_of() for a whole slab."""
    if bool(view.slabs["no_touch_"]):
        return int(view.slabs["objects_"]) * int(view.slabs["stride_"])
    return view.slab_bytes()


def print_traces(pattern):
    books = Books()
    if not pattern:
        raise gdb.GdbError("usage: qm traces NAME")
    sources = named(caches() + arenas(), pattern)
    if not is_glob(pattern) and bool(sources[0]["no_trace_"]):
        raise gdb.GdbError("Unable to trace slab %s" % pattern)
    for source in sources:
        one = books.of(source) if books.ready else None
        if is_glob(pattern) and (bool(source["no_trace_"]) or one is None):
            continue
        print("Dumping outstanding allocs from %s\n-------------------------" % name_of(source))
        number_of = 0 if one is None else int(one["number"])  # no record's is 0
        mine = sorted((r for r in books.records() if r.cache == number_of), key=lambda r: r.sequence)
        truncated = sum(1 for record in mine if books.print_record(one, record))
        state = books.state(source)
        if one is None:
            print("note: never traced")
        elif state != "on":
            print("note: %s, so later allocations are not recorded" % state)
        none = {"recorded": 0, "left_out": 0, "dropped": [], "lost_stacks": 0, "lost_contexts": 0}
        sums = books.figures(one) if one is not None else none
        every = number(one["every"]) if one is not None else 1
        counted = number(source["live_records"]) if every == 0 else 0
        if every == 0:
            print("note: only counts are kept: %s out, by slab_stacks" % counted_as(counted, "object is", "objects are"))
        elif sums["left_out"]:
            print("note: sampled: 1 of %d allocations has a record, %d were left out" % (every, sums["left_out"]))
        for reason, dropped in enumerate(sums["dropped"]):
            if dropped:
                print("note: dropped %d: %s" % (dropped, Books.REASONS[reason]))
        if sums["lost_stacks"]:
            print("note: %s without a stack: the stack depot is full" % counted_as(sums["lost_stacks"], "record", "records"))
        if sums["lost_contexts"]:
            print("note: %s without a context" % counted_as(sums["lost_contexts"], "record", "records"))
        lacking = sum(sums["dropped"]) or truncated or sums["lost_stacks"] or sums["left_out"]
        whole = one is not None and every != 0 and not lacking
        print("outstanding %d, recorded %d, dropped %d, truncated stacks %d, from before start %d: %s" % (
            len(mine) + counted, sums["recorded"], sum(sums["dropped"]), truncated,
            Books.from_before_start(one, source) if one is not None else 0, "complete" if whole else "incomplete"))


def print_stacks(pattern):
    books = Books()
    every = caches() + arenas()
    picked = named(every, pattern)
    ones = [books.of(source) for source in picked]
    ones = [one for one in ones if one is not None]
    owners = {int(one["number"]) for one in ones}
    dropped = sum(sum(books.figures(one)["dropped"]) for one in ones)
    if pattern and not is_glob(pattern):
        state = books.state(picked[0])
        if not ones:
            print("note: never traced")
        elif state != "on":
            print("note: %s, so later allocations are not recorded" % state)
    # Entries of one id are one stack, whose oldest entry speaks for all.
    rows, speaks, by_id = {}, {}, {}
    every_of = {int(one["number"]): number(one["every"]) for one in ones}
    size_of = {int(one["number"]): number(one["object_size"]) for one in ones}
    on = {int(one["number"]) for one, source in ((books.of(source), source) for source in picked)
          if one is not None and books.state(source) != "off"}
    for entry in books.stacks() if books.ready else []:
        speaks[entry["handle"]] = entry
        by_id.setdefault(entry["id"], []).append(entry)
        if entry["owner"] != 0 and (not pattern or entry["owner"] in owners):
            row = rows.setdefault(entry["id"], [0, 0])
            row[0] += entry["counted"]
            row[1] += entry["counted"] * size_of.get(entry["owner"], 0)
    lost_objects = sum(number(one["counted_bare"]) for one in ones)
    lost_bytes = sum(number(one["counted_bare"]) * number(one["object_size"]) for one in ones)
    for record in books.records():
        if record.cache not in owners:
            continue
        weight = max(1, every_of[record.cache])
        if record.stack < 2:
            lost_objects += weight
            lost_bytes += weight * record.size
            continue
        if record.stack not in speaks:
            continue  # of a damaged chain
        row = rows.setdefault(speaks[record.stack]["id"], [0, 0])
        row[0] += weight
        row[1] += weight * record.size
    try:
        threshold = int(static("threshold", namespace="qm::console::commands"))
    except gdb.GdbError:
        threshold = 1  # an image without the console
    order = sorted(rows, key=lambda ident: (-rows[ident][1], -rows[ident][0], -by_id[ident][-1]["handle"]))
    hidden = [ident for ident in rows if rows[ident][0] < threshold]
    truncated = sum(1 for ident in rows if rows[ident][0] and by_id[ident][-1]["flags"] & TRUNCATED)
    shown = 0
    for ident in order:
        objects, size = rows[ident]
        if objects < threshold:
            continue
        shown += 1
        entry = by_id[ident][-1]
        for pc in entry["pcs"]:
            found = books.names.find(pc - 1)
            print(" " + (name_text(found[0], found[1] + 1, found[2]) if found else address_text(pc)))
        if entry["flags"] & TRUNCATED:
            print(" ... (truncated)")
        collided = " (collided)" if entry["flags"] & COLLIDED else ""
        print("stack_count: %d\nstack_bytes: %d\nstack_id: 0x%08x%s\n" % (objects, size, ident, collided))
    if lost_objects:
        print("note: %s, %d bytes without a stack: the stack depot is full" % (counted_as(lost_objects, "object", "objects"), lost_bytes))
    sampled = sum(1 for owner in on if every_of[owner] > 1)
    counting = sum(1 for owner in on if every_of[owner] == 0)
    if sampled:
        print("note: %s are estimates" % counted_as(sampled, "cache is sampled: its figures", "caches are sampled: theirs"))
    if counting:
        print("note: %s counts only: bytes are of whole objects" % counted_as(counting, "cache keeps", "caches keep"))
    if truncated:
        print("note: %s truncated" % counted_as(truncated, "stack is", "stacks are"))
    hidden_objects = sum(rows[ident][0] for ident in hidden)
    if hidden_objects:
        print("note: %s, %d bytes in hidden stacks" % (counted_as(hidden_objects, "object", "objects"), sum(rows[ident][1] for ident in hidden)))
    traced = sum(1 for source in every if books.state(source) != "off")
    complete = ones and not dropped and not lost_objects and not truncated and not sampled
    print("stacks %d, hidden %d (threshold %d), objects %d, bytes %d, dropped %d, not traced %d caches: %s" % (
        shown, len(hidden), threshold, sum(row[0] for row in rows.values()) + lost_objects,
        sum(row[1] for row in rows.values()) + lost_bytes, dropped, len(every) - traced,
        "complete" if complete else "incomplete"))


def address_of(text, names):
    """Where an expression of GDB points, or lies if it is none of a number; where a function of the image's table is,
    which reports print as NAME+0xOFFSET/0xSIZE."""
    printed = re.fullmatch(r"(.*[^+])\+(0x[0-9a-f]+)/0x[0-9a-f]+", text)
    name, offset = (printed.group(1), int(printed.group(2), 16)) if printed else (text, 0)
    start = names.start(name)
    if start is not None:
        return start + offset
    # GDB reads some names of namespaces as types unless they are quoted.
    symbol = gdb.lookup_global_symbol(name)
    value = symbol.value() if symbol is not None else gdb.parse_and_eval(name)
    if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        value = value.referenced_value()
    lies = (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY)
    if value.type.strip_typedefs().code in lies:
        value = value.address
    return int(value) + offset


def image_address(name):
    """Of a symbol of the image; 0: it has none."""
    try:
        return int(gdb.parse_and_eval("(unsigned long)&" + name))
    except gdb.error:
        return 0


def print_taker(site):
    """Who took what a user holds, of the address of a call site, if the build has call sites and it is known."""
    site &= ~1
    if site == 0 or site == image_address("qm_untagged_site"):
        return
    site = gdb.Value(site).cast(gdb.lookup_type("qm::CallSite").pointer())
    print("  taken at " + site_text(site))


def site_text(site):
    """As Linux's allocinfo has a place: FILE:LINE [MODULE] func:NAME."""
    if int(site) == image_address("qm_untagged_site"):
        return "func:<untagged>"
    module = "[%s] " % text_of(site["module"]) if int(site["module"]) else ""
    return "%s:%d %sfunc:%s" % (text_of(site["file"]), int(site["line"]), module, text_of(site["function"]))


def site_of_object(cache, address):
    """The address of the call site that an object of a cache is charged to; 0: of none."""
    first = image_address("__start_qm_call_sites")
    if first == 0 or int(cache["charge_"]["amount_"]) == 0:
        return 0
    head = gdb.lookup_type("qm::ChargeHead").pointer()
    tag = number((gdb.Value(address).cast(head) - 1)["tag"])
    bytes_of_site = gdb.lookup_type("qm::CallSite").sizeof
    site = first + (tag // bytes_of_site - 1) * bytes_of_site
    return site if tag >= bytes_of_site and site < image_address("__stop_qm_call_sites") else 0


def segments(arena):
    """Start, size, a word on it, whether a user holds it, and the address of its call site: of each segment."""
    owners = ("allocated", "extent of slabs", "slab of a quantum cache", "boundary tags")
    ends = arena["ends_"]

    def following(tag):
        while int(tag) not in (0, int(ends.address)):
            yield tag
            tag = tag["next"]

    for tag in bounded(following(ends["next"]), "segments of %s" % name_of(arena)):
        kind = int(tag["kind"])
        if kind != 2:
            owner = int(tag["owner"])
            held = kind == 1 and owner == 0
            yield int(tag["start"]), int(tag["size"]), "free" if kind == 0 else owners[owner], held, int(tag["site"])
        elif int(arena["blocks_"]):
            yield from blocks(int(tag["start"]), int(tag["size"]))


def blocks(start, size):
    """The same of a span of blocks, up to a header that is none."""
    header_type = gdb.lookup_type("qm::BlockHeader")
    header_bytes, note_bytes = header_type.sizeof, gdb.lookup_type("qm::BlockNote").sizeof
    end = start + size - header_bytes
    at = start + header_bytes
    while at < end:
        word = int(gdb.Value(at).cast(header_type.pointer())["word"])
        bytes_of_block = (word >> 3) * 16
        if not 32 <= bytes_of_block <= end - at:
            return
        noted = word & 5 == 4
        usable = bytes_of_block - header_bytes - (note_bytes if noted else 0)
        note = gdb.Value(at + bytes_of_block - note_bytes).cast(gdb.lookup_type("qm::BlockNote").pointer())
        yield (at + header_bytes, usable, "free" if word & 1 else "allocated", not word & 1,
               int(note["site"]) if noted else 0)
        at += bytes_of_block


def print_whatis(text):
    if not text:
        raise gdb.GdbError("usage: qm whatis ADDRESS|NAME")
    books = Books()
    address = address_of(text, books.names) % (1 << 8 * gdb.lookup_type("char").pointer().sizeof)
    found_caches = found_arenas = 0
    every = named(caches(), "")
    for kind in (0, QUANTUM_CACHE):
        for cache in every:
            if int(cache["flags_"]) & QUANTUM_CACHE != kind:
                continue
            view = CacheView(cache)
            slab = view.slab_of(address)
            if slab is None:
                continue
            found_caches += 1
            start, stride, objects = int(slab["start"]), int(view.slabs["stride_"]), int(slab["objects"])
            index = (address - start) // stride
            in_header = not bool(view.slabs["no_touch_"]) and address >= view.bitmap(slab)[0]
            if in_header or not 0 <= index < objects:
                part = "header of the slab" if in_header else "unused part of the slab"
                print("cache %s: slab %s %s %d, %s" % (name_of(cache), address_text(start), "+-"[address < start],
                                                       abs(address - start), part))
                continue
            where = start + index * stride
            whereabouts = view.whereabouts(slab, index, where)
            print("cache %s: object %s + %d, %s\n  %d of %d in slab %s" % (
                name_of(cache), address_text(where), address - where, whereabouts,
                index + 1, objects, address_text(start)))
            if whereabouts == "in use":
                print_taker(site_of_object(cache, where))
            one, record = books.record_of(cache, where)
            if record is not None:
                books.print_record(one, record)
    for arena in arenas():
        for start, size, what, held, site in segments(arena):
            if not start <= address < start + size:
                continue
            found_arenas += 1
            print("arena %s: segment %s + %d\n  %d bytes, %s" % (
                name_of(arena), address_text(start), address - start, size, what))
            if held:
                print_taker(site)
            one, record = books.record_of(arena, start) if held else (None, None)
            if record is not None:
                books.print_record(one, record)
            break
    symbol = books.names.find(address)
    if symbol:
        print("code " + name_text(*symbol))
    print("whatis %s: caches %d, arenas %d: complete" % (address_text(address), found_caches, found_arenas))


# ---- totals ----------------------------------------------------------------------------------------------------------


def arena_stats(arena):
    """Amounts of an arena, as Arena::stats() has them."""
    counts = arena["counts_"]
    total, allocated = int(counts["total"]), int(counts["allocated"])
    return {"total": total, "allocated": allocated, "free": total - allocated, "high_water": int(counts["high_water"]),
            "allocations": int(counts["allocations_ever"]), "frees": int(counts["frees_ever"]),
            "failures": int(counts["failures"])}


def root_of(arena):
    """Of the arenas that an arena draws from, the last."""
    for _ in range(MOST_HARTS):
        source = arena["source_"]
        if int(source) in (0, int(arena.address)):
            return arena
        arena = source.dereference()
    raise gdb.GdbError("the sources of %s do not end: memory is damaged" % name_of(arena))


def base_arena():
    """The arena that refills the boundary tags."""
    for arena in arenas():
        if bool(arena["refills_tags_"]):
            return arena
    raise gdb.GdbError("no caches and arenas are there: is there a target, and has it booted?")


def idle_in_extents(base):
    """Bytes of the pages of extents that no slab has; the upper bits of `pages` say something else."""
    ends = base["ends_"]
    idle = 0

    def following(tag):
        while int(tag) not in (0, int(ends.address)):
            yield tag
            tag = tag["next"]

    for tag in bounded(following(ends["next"]), "segments of base"):
        if int(tag["kind"]) == 1 and int(tag["owner"]) == 1:
            idle += bin(int(tag["pages"]) & 0xFF).count("1") * (int(tag["size"]) // 8)
    return idle


def print_free(text):
    if text:
        raise gdb.GdbError("usage: qm free")
    base = base_arena()
    stats = arena_stats(base)
    mine = [arena for arena in arenas() if root_of(arena).address == base.address]
    idle = sum(idle_in_extents(arena) if arena.address == base.address else arena_stats(arena)["free"] for arena in mine)
    of_base = [cache for cache in caches() if root_of(cache["slabs_"]["source_"].dereference()).address == base.address]
    for cache in of_base:
        view = CacheView(cache)
        held = view.stats()
        idle += (held["total"] - held["in_use"]) * print_slab_bytes(view) // int(view.slabs["objects_"])
    largest = max([size for _, size, what, _, _ in segments(base) if what == "free"], default=0)
    amounts = (("total", stats["total"]), ("used", stats["allocated"]), ("free", stats["free"]), ("idle", idle),
               ("least free", stats["total"] - stats["high_water"]), ("largest", largest))
    print("bytes" + "".join("%12s" % name for name, _ in amounts))
    print("     " + "".join("%12d" % amount for _, amount in amounts))
    print("caches %d, arenas %d: complete" % (len(of_base), len(mine)))


def print_kmemstat(pattern):
    """Each byte that users hold is in one line: of caches but quantum caches, and of arenas from which users alone draw."""
    pattern = name_in(pattern)
    base = base_arena()
    lines = []
    every = caches()
    for cache in every:
        if int(cache["flags_"]) & QUANTUM_CACHE or not matches(pattern, name_of(cache)):
            continue
        view = CacheView(cache)
        stats, size = view.stats(), view.object_size()
        lines.append((name_of(cache), size, stats["in_use"] * size, (stats["total"] - stats["in_use"]) * size,
                      stats["allocations"], stats["failures"]))
    for arena in arenas():
        if not matches(pattern, name_of(arena)) or root_of(arena).address != base.address or number(arena["importers_"]):
            continue
        stats = arena_stats(arena)
        lines.append((name_of(arena), int(arena["quantum_"]), stats["allocated"], stats["free"], stats["allocations"],
                      stats["failures"]))
    if not lines:
        raise gdb.GdbError("No such slab %s" % pattern)
    print("%-30s %8s %10s %10s %10s used %9s fail" % ("bytes", "size", "in use", "idle", "total", "allocs"))
    lines.append(("total", None) + tuple(sum(line[i] or 0 for line in lines) for i in range(2, 6)))
    for name, size, used, idle, allocations, failures in lines:
        print("%-30s %8s %10d %10d %10d %3d%% %9s %4d" % (
            name, "" if size is None else size, used, idle, used + idle,
            used * 100 // (used + idle) if used + idle else 0, "-" if allocations is None else allocations, failures))
    print("shown %d of %d: complete" % (len(lines) - 1, len(lines) - 1))


def site_rows():
    """Call site, bytes, calls, what of the bytes nobody asked for, and whether that is all, of each site."""
    first, stop = image_address("__start_qm_call_sites"), image_address("__stop_qm_call_sites")
    if first == 0:
        raise gdb.GdbError("this build has no call sites (QM_CALL_SITES)")
    kind, counts = gdb.lookup_type("qm::CallSite"), Layout("qm::SiteCounts")
    count = limited((stop - first) // kind.sizeof, LONGEST, "call sites")
    word, waste = counts.type["words"].type.target().sizeof, counts.type["wastes"].type.target().sizeof
    harts_here = limited(int(static("word_harts", namespace="qm::call_sites")), MOST_HARTS, "harts")
    table = int(static("all_words", namespace="qm::call_sites"))
    row_bytes = counts.sizeof
    hart_bytes = ((count + 1) * row_bytes + 63) // 64 * 64
    pointer = gdb.lookup_type("char").pointer().sizeof
    tables = [memory(table + hart * hart_bytes, hart_bytes) for hart in range(harts_here)]

    def sums(start):
        """A word of every hart: calls above bytes in 64 bits, or two of 32."""
        parts = [(int.from_bytes(data[start : start + 4], "little"), int.from_bytes(data[start + 4 : start + 8], "little"))
                 for data in tables]
        if pointer == 4:
            return sum(calls for calls, _ in parts) & 0xFFFFFFFF, sum(size for _, size in parts) & 0xFFFFFFFF
        both = sum(low | high << 32 for low, high in parts) & 0xFFFFFFFFFFFFFFFF
        return both >> CALL_SHIFT, both & (1 << CALL_SHIFT) - 1

    for index in range(count):
        start = (index + 1) * row_bytes
        words, wastes = start + counts.members["words"][0], start + counts.members["wastes"][0]
        calls, size = sums(words)
        lost = sum(int.from_bytes(data[wastes : wastes + pointer], "little") for data in tables)
        lost &= (1 << 8 * pointer) - 1
        yield at(first + index * kind.sizeof, "qm::CallSite").address, size, calls, lost, sums(words + word) == (0, 0)


def print_allocinfo(text):
    rows = list(site_rows())
    top = int(gdb.parse_and_eval(text)) if text else len(rows)
    if top < 0:
        raise gdb.GdbError("usage: qm allocinfo [NUMBER]")
    shown = sorted((row for row in rows if row[1] or row[2] or not row[4]), key=lambda row: (-row[1], -row[2]))[:top]
    print("allocinfo - version: 2.0\n#     <size>  <calls> <tag info>")
    for site, size, calls, lost, accurate in shown:
        print("%12d %8d %s%s%s" % (size, calls, site_text(site), " requested:%d" % (size - lost) if lost else "",
                                   "" if accurate else " accurate:no"))
    untagged = sum(row[1] for row in rows if int(row[0]) == image_address("qm_untagged_site"))
    on = number(static("on", namespace="qm::call_sites")) != 0
    print("# sites %d of %d, bytes %d of %d, untagged %d, state %s: complete" % (
        len(shown), len(rows), sum(row[1] for row in shown), sum(row[1] for row in rows), untagged, "on" if on else "off"))


def print_growth(text):
    """Since boot: all that is held. Marks are the console's."""
    if text:
        raise gdb.GdbError("usage: qm growth")
    rows, own = [], []
    every = named(caches() + arenas(), "")
    for source in every:
        if source.type.name == "qm::Cache":
            view = CacheView(source)
            objects = view.stats()["in_use"]
            kind, size = "S", objects * view.object_size()
        else:
            counts = source["counts_"]
            objects = int(counts["allocations_ever"]) - int(counts["frees_ever"]) - int(source["slab_segments_"])
            kind, size = "A", int(counts["allocated"])
        if size == 0 and objects <= 0:
            continue
        name = name_of(source)
        mine = own if name.startswith("kmem_") or name == "ktrace" else rows
        mine.append((name, kind, size, objects))
    print("%-30s:Typ:      Alloc Amt:         Growth:     Objects\n%s" % ("Arena/Slab Name", "-" * 79))
    for name, kind, size, objects in sorted(rows, key=lambda row: (-row[2], -row[3])):
        print("%-30s: %s :%15d:%15d:%12d" % (name, kind, size, size, objects))
    if own:
        print("note: %d of the allocator's own grew by %d together, left out" % (len(own), sum(row[2] for row in own)))
    print("")
    try:
        sites = sorted((row for row in site_rows() if row[1] or row[2]), key=lambda row: (-row[1], -row[2]))
    except gdb.GdbError:
        sites = []  # a build without call sites
    if sites:
        print("#     <size>  <calls> <tag info>")
        for site, size, calls, _, _ in sites:
            print("%+12d %+8d %s" % (size, calls, site_text(site)))
        print("")
    print("growth since boot: %d caches, %d arenas: complete" % (
        sum(1 for row in rows if row[1] == "S"), sum(1 for row in rows if row[1] == "A")))


def name_in(text):
    """The name of a cache or an arena: as it stands, or of what an expression of GDB is or points to."""
    is_pattern = is_glob(text) and not re.match(r"\*+[$&(\w]", text)
    if not text or is_pattern or any(name_of(source) == text for source in caches() + arenas()):
        return text
    try:
        value = gdb.parse_and_eval(text)
        while value.type.strip_typedefs().code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
            value = value.referenced_value()
        if value.type.strip_typedefs().name in ("qm::Cache", "qm::Arena", "qm::Traceable"):
            return name_of(value)
    except gdb.error:
        pass
    return text


def load_image(arguments):
    """A core file made of raw memory: one segment, no registers."""
    words = gdb.string_to_argv(arguments)
    if len(words) != 2:
        raise gdb.GdbError("usage: qm image FILE BASE")
    base = int(gdb.parse_and_eval(words[1]))
    with open(words[0], "rb") as file:
        data = file.read()
    wide = gdb.lookup_type("char").pointer().sizeof == 8
    head, segment = (64, 56) if wide else (52, 32)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1, 1, 0]) + bytes(8)
    layout = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    header = ident + struct.pack(layout, 4, 243, 1, 0, head, 0, 5 if wide else 1, head, segment, 1, 0, 0, 0)
    if wide:
        program = struct.pack("<IIQQQQQQ", 1, 7, head + segment, base, base, len(data), len(data), 1)
    else:
        program = struct.pack("<IIIIIIII", 1, head + segment, base, base, len(data), len(data), 7, 1)
    core = tempfile.NamedTemporaryFile(suffix=".core", delete=False)
    with core:
        core.write(header + program + data)
    try:
        gdb.execute("target core %s" % core.name)
    finally:
        os.unlink(core.name)  # GDB has it open


class Quartermaster(gdb.Command):
    """Quartermaster's books: qm caches [NAME] | traces NAME | stacks [NAME] | whatis ADDRESS|NAME | free | kmemstat [NAME] |
allocinfo [NUMBER] | growth | image FILE BASE."""

    VERBS = {"caches": print_caches, "traces": print_traces, "stacks": print_stacks, "whatis": print_whatis,
             "free": print_free, "kmemstat": print_kmemstat, "allocinfo": print_allocinfo, "growth": print_growth,
             "image": load_image}

    def __init__(self):
        super().__init__("qm", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        verb, _, rest = argument.strip().partition(" ")
        if verb not in self.VERBS:
            raise gdb.GdbError(self.__doc__)
        try:
            self.VERBS[verb](rest.strip())
        except (gdb.error, OSError) as error:  # no such name, memory or file
            raise gdb.GdbError(str(error))
        except (ArithmeticError, LookupError, ValueError, struct.error) as error:
            raise gdb.GdbError("memory is damaged, or the image is another: %s" % error)

    def complete(self, text, word):
        verb, space, begun = text.lstrip().partition(" ")
        if not space:
            return [verb for verb in self.VERBS if verb.startswith(word)]
        if verb == "whatis":
            return gdb.COMPLETE_EXPRESSION
        if verb == "image":
            return gdb.COMPLETE_FILENAME
        try:
            takes_names = verb in ("caches", "traces", "stacks", "kmemstat")
            known = [name_of(source) for source in caches() + (arenas() if verb != "caches" else [])] if takes_names else []
        except gdb.error:
            return []  # no target, or no memory of it
        # GDB completes the last word of a name that has several, as of `a-b`.
        return [name[len(begun) - len(word) :] for name in known if name.startswith(begun)]


Quartermaster()


# ---- pretty-printers -------------------------------------------------------------------------------------------------


class CachePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        stats = CacheView(self.value).stats()
        idle = stats["in_magazines"] + stats["in_depot"] + stats["in_slabs"] + stats["reserved"]
        return "cache %s: %d in use, %d idle, %d bytes each" % (
            name_of(self.value), stats["in_use"], idle, CacheView(self.value).object_size())


class ArenaPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return "arena %s" % name_of(self.value)


class AtomicPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return plain(self.value)


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("quartermaster")
    collection.add_printer("cache", "^qm::Cache$", CachePrinter)
    collection.add_printer("arena", "^qm::Arena$", ArenaPrinter)
    collection.add_printer("atomic", "^std::atomic<.*>$", AtomicPrinter)
    return collection


gdb.printing.register_pretty_printer(None, printers(), replace=True)
