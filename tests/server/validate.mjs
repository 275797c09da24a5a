// Checks JSON values against schemas of our OpenAPI document: enough of JSON Schema for that document and nothing more.
//
//     const api = openApi('apps/server/api/openapi.json');
//     api.check('ChatCompletion', reply);            // throws, naming the path and the rule that is broken
//     api.checkReply('post', '/v1/completions', 200, 'application/json', reply);
//
// A keyword it does not know is an error, so that a rule in the document is never skipped in silence.
import { readFileSync } from 'node:fs';

const annotations = new Set(['description', 'default', 'x-item-schema', 'title', 'examples']);

function typeOf(value) {
    if (value === null) return 'null';
    if (Array.isArray(value)) return 'array';
    return typeof value;
}

function hasType(value, type) {
    if (type === 'integer') return Number.isInteger(value);
    return typeOf(value) === type;
}

function same(a, b) {
    return JSON.stringify(a) === JSON.stringify(b);
}

// Each rule gets the value, the keyword's argument, the whole schema and a function for sub-schemas; it yields complaints.
const rules = {
    *type(value, types) {
        const list = [types].flat();
        if (!list.some((type) => hasType(value, type))) yield `is ${typeOf(value)}, not ${list.join(' or ')}`;
    },
    *enum(value, values) {
        if (!values.some((one) => same(one, value))) yield `is ${JSON.stringify(value)}, not one of ${JSON.stringify(values)}`;
    },
    *format(value, format) {
        if (format !== 'int64') throw new Error(`the format '${format}' is not known here`);
        if (typeof value === 'number' && !(Math.abs(value) < 2 ** 63)) yield `is ${value}, beyond 64 bits`;
    },
    *minimum(value, min) {
        if (typeof value === 'number' && value < min) yield `is ${value}, below ${min}`;
    },
    *maximum(value, max) {
        if (typeof value === 'number' && value > max) yield `is ${value}, above ${max}`;
    },
    *minLength(value, min) {
        if (typeof value === 'string' && [...value].length < min) yield `is shorter than ${min}`;
    },
    *maxLength(value, max) {
        if (typeof value === 'string' && [...value].length > max) yield `is longer than ${max}`;
    },
    *pattern(value, pattern) {
        if (typeof value === 'string' && !new RegExp(pattern, 'u').test(value)) yield `does not match ${pattern}`;
    },
    *minItems(value, min) {
        if (Array.isArray(value) && value.length < min) yield `has fewer than ${min} elements`;
    },
    *maxItems(value, max) {
        if (Array.isArray(value) && value.length > max) yield `has more than ${max} elements`;
    },
    *items(value, schema, _, walk) {
        if (!Array.isArray(value)) return;
        for (const [i, item] of value.entries()) yield* walk(item, schema, `[${i}]`);
    },
    *maxProperties(value, max) {
        if (typeOf(value) === 'object' && Object.keys(value).length > max) yield `has more than ${max} fields`;
    },
    *required(value, names) {
        if (typeOf(value) !== 'object') return;
        for (const name of names) if (!Object.hasOwn(value, name)) yield `lacks '${name}'`;
    },
    *properties(value, fields, _, walk) {
        if (typeOf(value) !== 'object') return;
        for (const [name, schema] of Object.entries(fields))
            if (Object.hasOwn(value, name)) yield* walk(value[name], schema, `.${name}`);
    },
    *additionalProperties(value, schema, whole, walk) {
        if (typeOf(value) !== 'object') return;
        for (const name of Object.keys(value)) {
            if (whole.properties && Object.hasOwn(whole.properties, name)) continue;
            if (schema === false) yield `has the unknown field '${name}'`;
            else if (schema !== true) yield* walk(value[name], schema, `.${name}`);
        }
    },
    *anyOf(value, schemas, _, walk) {
        const tries = schemas.map((schema) => [...walk(value, schema, '')]);
        if (!tries.some((complaints) => complaints.length === 0)) yield `fits none of ${schemas.length} forms: ${tries.flat().join('; ')}`;
    },
    *oneOf(value, schemas, _, walk) {
        const tries = schemas.map((schema) => [...walk(value, schema, '')]);
        const n = tries.filter((complaints) => complaints.length === 0).length;
        if (n !== 1) yield `fits ${n} of ${schemas.length} forms, not one${n ? '' : ': ' + tries.flat().join('; ')}`;
    },
};

export function openApi(path) {
    const document = JSON.parse(readFileSync(path, 'utf8'));

    function resolve(node) {
        if (!node || !Object.hasOwn(node, '$ref')) return node;
        const target = node.$ref.split('/').slice(1).reduce((at, key) => at?.[key], document);
        if (target === undefined) throw new Error(`the document has no ${node.$ref}`);
        return resolve(target);
    }

    // All complaints about a value, each beginning with its path.
    function* walk(value, schema, path) {
        const rule = resolve(schema);
        for (const [keyword, argument] of Object.entries(rule)) {
            if (annotations.has(keyword)) continue;
            if (!rules[keyword]) throw new Error(`the schema keyword '${keyword}' is not known here`);
            const inner = (subValue, subSchema, step) => walk(subValue, subSchema, step);
            for (const complaint of rules[keyword](value, argument, rule, inner))
                yield complaint.startsWith('.') || complaint.startsWith('[') ? path + complaint : `${path} ${complaint}`;
        }
    }

    function complain(value, schema, what) {
        const complaints = [...walk(value, schema, '')];
        if (complaints.length) throw new Error(`${what}: ${complaints.slice(0, 5).join('; ')}`);
    }

    return {
        document,
        check(name, value) {
            const schema = document.components.schemas[name];
            if (!schema) throw new Error(`the document has no schema ${name}`);
            complain(value, schema, name);
        },
        // The reply of an operation; for an event stream, `value` is one event.
        checkReply(method, route, status, mediaType, value) {
            const reply = resolve(document.paths[route]?.[method]?.responses?.[String(status)]);
            if (!reply) throw new Error(`the document has no ${status} for ${method} ${route}`);
            const media = reply.content?.[mediaType.split(';')[0].trim()];
            if (!media) throw new Error(`the document has no ${mediaType} for ${status} of ${method} ${route}`);
            complain(value, media.schema, `${method} ${route} ${status}`);
        },
        checkRequest(method, route, value) {
            const body = document.paths[route]?.[method]?.requestBody;
            if (!body) throw new Error(`the document has no body for ${method} ${route}`);
            complain(value, body.content['application/json'].schema, `${method} ${route}`);
        },
    };
}
