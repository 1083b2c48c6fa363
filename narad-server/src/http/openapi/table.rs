//! The routes, each with what it takes and answers.

use axum::routing::{MethodRouter, delete, get, post, put};

use super::{
    Answer, Body, Content, Link, Operation,
    parameters::{Kind, Parameter},
};
use crate::{
    broker::MAX_PAYLOAD_BYTES,
    http::{
        ACK, App, CONSUME, METRICS, OPENAPI, PRODUCE, PRODUCE_BATCH, batch, children, directories, error,
        health, message_json, messages, schemas, settle, topics, users,
    },
};

/// A route: a path with every method that it takes.
pub(in crate::http) struct Route {
    pub(in crate::http) path: &'static str,
    pub(in crate::http) handlers: fn() -> MethodRouter<App>,
    pub(super) operations: &'static [Operation],
}

/// The routes that `app` serves.
pub(in crate::http) fn routes(app: &App) -> impl Iterator<Item = &'static Route> {
    let elsewhere = app.0.settings.metrics_addr.is_some();
    ROUTES.iter().filter(move |route| !(elsewhere && route.path == METRICS))
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter()
}

const NUMBER: Kind = Kind::Number(0, u32::MAX as u64);
const PARTITION: Parameter = Parameter::new("partition", NUMBER, "The partition, counted from 0");
const GET: Operation = Operation {
    method: "get",
    id: "",
    summary: "",
    query: &[],
    body: Body::None,
    answers: &[],
    errors: &[],
    open: false,
};
const POST: Operation = Operation { method: "post", ..GET };
const PUT: Operation = Operation { method: "put", ..GET };
const PATCH: Operation = Operation { method: "patch", ..GET };
const DELETE: Operation = Operation { method: "delete", answers: &[Answer::empty(204, "It is gone")], ..GET };

const NEW_TOPIC: &[(&str, &str)] = &[("topic", "$response.body#/name")];
const OF_A_NEW_TOPIC: &[Link] = &[
    Link { operation: "describeTopic", parameters: NEW_TOPIC },
    Link { operation: "changeTopic", parameters: NEW_TOPIC },
    Link { operation: "listSchemas", parameters: NEW_TOPIC },
    Link { operation: "listChildren", parameters: NEW_TOPIC },
    Link { operation: "attachChild", parameters: NEW_TOPIC },
    Link { operation: "produce", parameters: NEW_TOPIC },
    Link { operation: "produceBatch", parameters: NEW_TOPIC },
    Link { operation: "consume", parameters: NEW_TOPIC },
    Link { operation: "deleteTopic", parameters: NEW_TOPIC },
];
const NEW_USER: &[(&str, &str)] = &[("user", "$response.body#/username")];
const OF_A_NEW_USER: &[Link] = &[
    Link { operation: "describeUser", parameters: NEW_USER },
    Link { operation: "setGrants", parameters: NEW_USER },
    Link { operation: "setPassword", parameters: NEW_USER },
    Link { operation: "deleteUser", parameters: NEW_USER },
];

static ROUTES: &[Route] = &[
    Route {
        path: "/v1/topics",
        handlers: || post(topics::create).get(topics::list),
        operations: &[
            Operation {
                id: "createTopic",
                summary: "Create a topic",
                body: Body::Json(|requests| requests.subschema_for::<topics::CreateBody>()),
                answers: &[Answer::json(201, "The topic", |answers| {
                    answers.subschema_for::<topics::TopicObject<'_>>()
                })
                .leads_to(OF_A_NEW_TOPIC)],
                errors: &[404, 409],
                ..POST
            },
            Operation {
                id: "listTopics",
                summary: "List the topics by name",
                query: &[
                    Parameter::new(
                        "limit",
                        Kind::Number(1, u32::MAX as u64),
                        "Topics of a page: 100 without it, at most 1000",
                    ),
                    Parameter::new("page_token", Kind::Text, "The `next_page_token` of the page before"),
                ],
                answers: &[Answer::json(200, "A page", |answers| {
                    answers.subschema_for::<topics::TopicPage<'_>>()
                })],
                ..GET
            },
        ],
    },
    Route {
        path: "/v1/topics/{topic}",
        handlers: || get(topics::describe).patch(topics::update).delete(topics::delete),
        operations: &[
            Operation {
                id: "describeTopic",
                summary: "Look at a topic and what its partitions hold",
                query: &[PARTITION],
                answers: &[Answer::json(200, "The topic", |answers| {
                    answers.subschema_for::<topics::DescribedTopic<'_>>()
                })],
                errors: &[404],
                ..GET
            },
            Operation {
                id: "changeTopic",
                summary: "Change a topic's settings or its schema",
                body: Body::Json(|requests| requests.subschema_for::<topics::UpdateBody>()),
                answers: &[Answer::json(200, "The topic", |answers| {
                    answers.subschema_for::<topics::TopicObject<'_>>()
                })],
                errors: &[404, 409],
                ..PATCH
            },
            Operation {
                id: "deleteTopic",
                summary: "Delete a topic and every message in it",
                errors: &[404],
                ..DELETE
            },
        ],
    },
    Route {
        path: "/v1/topics/{topic}/schema",
        handlers: || get(schemas::versions),
        operations: &[Operation {
            id: "listSchemas",
            summary: "Every version of a topic's schema",
            answers: &[Answer::json(200, "The versions", |answers| {
                answers.subschema_for::<schemas::Versions<'_>>()
            })],
            errors: &[404],
            ..GET
        }],
    },
    Route {
        path: "/v1/topics/{topic}/children",
        handlers: || get(children::list).post(children::attach),
        operations: &[
            Operation {
                id: "listChildren",
                summary: "The topics that get a copy, and how far behind they are",
                answers: &[Answer::json(200, "The children", |answers| {
                    answers.subschema_for::<children::ChildList<'_>>()
                })],
                errors: &[404],
                ..GET
            },
            Operation {
                id: "attachChild",
                summary: "Copy to a topic what is committed from now on",
                body: Body::Json(|requests| requests.subschema_for::<children::AttachBody>()),
                answers: &[Answer::json(200, "The parent", |answers| {
                    answers.subschema_for::<topics::TopicObject<'_>>()
                })
                .leads_to(&[Link {
                    operation: "detachChild",
                    parameters: &[("topic", "$request.path.topic"), ("child", "$request.body#/child")],
                }])],
                errors: &[404, 409],
                ..POST
            },
        ],
    },
    Route {
        path: "/v1/topics/{topic}/children/{child}",
        handlers: || delete(children::detach),
        operations: &[Operation {
            id: "detachChild",
            summary: "Copy no more to a topic; it keeps what it has",
            errors: &[404],
            ..DELETE
        }],
    },
    Route {
        path: PRODUCE,
        handlers: || post(messages::produce),
        operations: &[Operation {
            id: "produce",
            summary: "Take one message: the body, byte for byte",
            query: &[
                Parameter::new("key", Kind::Text, "Picks the partition, unless that is given"),
                PARTITION,
            ],
            body: Body::Bytes(MAX_PAYLOAD_BYTES),
            answers: &[Answer::empty(202, "It is synced to disk")],
            errors: &[404, 409],
            ..POST
        }],
    },
    Route {
        path: PRODUCE_BATCH,
        handlers: || post(batch::produce),
        operations: &[Operation {
            id: "produceBatch",
            summary: "Take up to a thousand messages, all or none, in order",
            body: Body::Json(|requests| requests.subschema_for::<batch::Batch<'_>>()),
            answers: &[Answer::json(202, "They are synced to disk", |answers| {
                answers.subschema_for::<batch::Accepted>()
            })],
            errors: &[404, 409, 415],
            ..POST
        }],
    },
    Route {
        path: CONSUME,
        // Without a HEAD of its own axum would lease a message to answer one.
        handlers: || get(messages::consume).head(error::get_alone).fallback(error::get_alone),
        operations: &[Operation {
            id: "consume",
            summary: "Lease the next message, or up to `max`; with `offset` read that one and lease nothing",
            query: &[
                Parameter::new("wait", Kind::Duration, "How long to wait for a message, such as `5s`"),
                PARTITION,
                Parameter::new("max", Kind::Number(1, 100), "Answer a list of up to so many"),
                Parameter::new(
                    "offset",
                    Kind::Number(0, u64::MAX >> 1),
                    "Replay: needs `partition`, and no `max`",
                ),
            ],
            answers: &[
                Answer {
                    status: 200,
                    says: "The message, or with `max` the messages",
                    content: Content::Json(message_json::delivered),
                    headers: &[("X-Narad-Wait-Clamped", "The longest wait, when `wait` was longer")],
                    links: &[Link {
                        operation: "ack",
                        parameters: &[
                            ("topic", "$request.path.topic"),
                            ("receipt_handle", "$response.body#/receipt_handle"),
                        ],
                    }],
                },
                Answer {
                    status: 204,
                    says: "There is none",
                    content: Content::None,
                    headers: &[("X-Narad-Wait-Clamped", "The longest wait, when `wait` was longer")],
                    links: &[],
                },
            ],
            errors: &[404, 410],
            ..GET
        }],
    },
    Route {
        path: ACK,
        handlers: || post(settle::settle),
        operations: &[Operation {
            id: "ack",
            summary: "Acknowledge, renew or give back a lease, or up to a hundred",
            query: &[
                Parameter::new(
                    "receipt_handle",
                    Kind::Text,
                    "The lease; not together with a body that names some",
                ),
                Parameter::new(
                    "extend",
                    Kind::OneOf(&["true", "1", "0", "false"]),
                    "Renew (`true`, `1`) or give back (`0`); `false` acknowledges, as without it",
                ),
            ],
            body: Body::OptionalJson(|requests| requests.subschema_for::<settle::AckBody>()),
            answers: &[
                Answer::json(200, "What became of each", |answers| {
                    answers.subschema_for::<settle::Results>()
                }),
                Answer::empty(204, "It is done"),
            ],
            errors: &[404, 410],
            ..POST
        }],
    },
    Route {
        path: "/v1/users",
        handlers: || get(users::list).post(users::create),
        operations: &[
            Operation {
                id: "listUsers",
                summary: "The users by name",
                answers: &[Answer::json(200, "The users", |answers| {
                    answers.subschema_for::<Vec<users::UserObject<'_>>>()
                })],
                ..GET
            },
            Operation {
                id: "createUser",
                summary: "Create a user",
                body: Body::Json(|requests| requests.subschema_for::<users::CreateBody>()),
                answers: &[Answer::json(201, "The user", |answers| {
                    answers.subschema_for::<users::UserObject<'_>>()
                })
                .leads_to(OF_A_NEW_USER)],
                errors: &[409],
                ..POST
            },
        ],
    },
    Route {
        path: "/v1/users/{user}",
        handlers: || get(users::describe).delete(users::delete),
        operations: &[
            Operation {
                id: "describeUser",
                summary: "Look at a user",
                answers: &[Answer::json(200, "The user", |answers| {
                    answers.subschema_for::<users::UserObject<'_>>()
                })],
                errors: &[404],
                ..GET
            },
            Operation { id: "deleteUser", summary: "Delete a user", errors: &[404], ..DELETE },
        ],
    },
    Route {
        path: "/v1/users/{user}/grants",
        handlers: || put(users::set_grants),
        operations: &[Operation {
            id: "setGrants",
            summary: "Give a user these grants in place of all there were",
            body: Body::Json(|requests| requests.subschema_for::<users::GrantsBody>()),
            answers: &[Answer::json(200, "The user", |answers| {
                answers.subschema_for::<users::UserObject<'_>>()
            })],
            errors: &[404],
            ..PUT
        }],
    },
    Route {
        path: "/v1/users/{user}/password",
        handlers: || put(users::set_password),
        operations: &[Operation {
            id: "setPassword",
            summary: "Change a user's password",
            body: Body::Json(|requests| requests.subschema_for::<users::PasswordBody>()),
            answers: &[Answer::empty(204, "It is changed")],
            errors: &[404, 409],
            ..PUT
        }],
    },
    Route {
        path: "/v1/directories",
        handlers: || get(directories::list),
        operations: &[Operation {
            id: "listDirectories",
            summary: "Directories of data that no topic has",
            answers: &[Answer::json(200, "The directories", |answers| {
                answers.subschema_for::<directories::Directories>()
            })],
            ..GET
        }],
    },
    Route {
        path: "/v1/directories/{directory}/adopt",
        handlers: || post(directories::adopt),
        operations: &[Operation {
            id: "adoptDirectory",
            summary: "Make a topic of a directory that none has",
            body: Body::OptionalJson(|requests| requests.subschema_for::<directories::AdoptBody>()),
            answers: &[Answer::json(201, "The topic", |answers| {
                answers.subschema_for::<topics::TopicObject<'_>>()
            })],
            errors: &[404, 409],
            ..POST
        }],
    },
    Route {
        path: "/v1/cluster/members",
        handlers: || get(health::members),
        operations: &[Operation {
            id: "listMembers",
            summary: "The nodes: this one",
            answers: &[Answer::json(200, "The nodes", |answers| {
                answers.subschema_for::<health::Members<'_>>()
            })],
            ..GET
        }],
    },
    Route {
        path: OPENAPI,
        handlers: || get(super::document),
        operations: &[Operation {
            id: "openapi",
            summary: "This document",
            answers: &[Answer::json(200, "An OpenAPI document", |answers| {
                answers.subschema_for::<serde_json::Map<String, serde_json::Value>>()
            })],
            open: true,
            ..GET
        }],
    },
    Route {
        path: "/healthz",
        handlers: || get(health::alive),
        operations: &[Operation {
            id: "alive",
            summary: "Whether the server is up and not stopping",
            answers: &[Answer::json(200, "It is", |answers| answers.subschema_for::<health::Alive>())],
            errors: &[503],
            open: true,
            ..GET
        }],
    },
    Route {
        path: "/readyz",
        handlers: || get(health::ready),
        operations: &[Operation {
            id: "ready",
            summary: "Whether every partition was opened",
            answers: &[Answer::json(200, "It is", |answers| answers.subschema_for::<health::Ready>())],
            errors: &[503],
            open: true,
            ..GET
        }],
    },
    Route {
        path: METRICS,
        handlers: || get(health::metrics),
        operations: &[Operation {
            id: "metrics",
            summary: "Prometheus text",
            answers: &[Answer {
                status: 200,
                says: "The metrics",
                content: Content::Text,
                headers: &[],
                links: &[],
            }],
            ..GET
        }],
    },
];
